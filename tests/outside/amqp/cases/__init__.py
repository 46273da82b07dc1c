"""What a broker has to refuse, a case each: what is sent, frame by frame."""
