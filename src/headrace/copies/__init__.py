"""Copies of queues' settled positions on the brokers of their other replicas (ADR 77).

messages           questions to such a broker and its answers; the port that carries them
copying            `Copying`: what a broker sends of the queues that it leads, and when
queue_copies       the copies of one led queue, and what they have confirmed
frame_copy         one copy: the frames that are not sent yet
settled_follower   `SettledFollower`: answers the questions of leaders
followed_file      the file of one queue that another broker leads
newest_file        a new leader finds the newest file
"""
