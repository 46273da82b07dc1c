// Scenarios of RocketMQ's Java client that are recorded; each announces itself to the recorder by a UDP datagram.
// java -Dns=ADDRESS -Dbroker=NAME -Dport=OF_THE_BROKER -Dlabels=PORT Recorded CLIENT SCENARIO...
import java.net.*; import java.util.*; import java.util.concurrent.*; import java.util.concurrent.atomic.*;
import org.apache.rocketmq.client.consumer.*; import org.apache.rocketmq.client.consumer.listener.*; import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere; import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.client.*; import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
public class Recorded {
  static String NS = System.getProperty("ns", "127.0.0.1:9876"), PRE, BROKER = System.getProperty("broker", "broker-a"); static int PORT = Integer.getInteger("port", 10911), LABELS = Integer.getInteger("labels", 9990); static DatagramSocket us;
  static void label(String s) throws Exception { Thread.sleep(60); byte[] b = (s.equals("-") ? "-" : PRE + "/" + s).getBytes(); us.send(new DatagramPacket(b, b.length, InetAddress.getByName("127.0.0.1"), LABELS)); Thread.sleep(40); }
  static void say(String s) { System.out.println(PRE + " " + s); System.out.flush(); }
  static String T(String s) { return "Sc" + PRE.replaceAll("[^a-zA-Z0-9]", "") + "_" + s; }
  static DefaultMQProducer prod(String g) throws Exception { DefaultMQProducer p = new DefaultMQProducer(g); p.setNamesrvAddr(NS); p.setInstanceName("I" + System.nanoTime()); p.setSendMsgTimeout(10000); p.setMqClientApiTimeout(10000); p.start(); return p; }
  static Message msg(String t, String tag, String key, String body) { return new Message(t, tag, key, body.getBytes()); }
  static DefaultMQPushConsumer push(String g, String topic, String expr) throws Exception { DefaultMQPushConsumer c = new DefaultMQPushConsumer(g); c.setNamesrvAddr(NS); c.setInstanceName("I" + System.nanoTime()); c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET); c.setConsumeThreadMin(2); c.setConsumeThreadMax(2); c.setMqClientApiTimeout(10000); c.subscribe(topic, expr); return c; }
  static void waitFor(Callable<Boolean> f, int s) throws Exception { for (int i = 0; i < s * 30 && !f.call(); i++) Thread.sleep(100); } // three times as long on a busy machine
  interface Job { void run() throws Exception; }
  static void sc(String n, Job j) { try { label(n); j.run(); } catch (Throwable e) { say(n + " -> " + e.toString().replace('\n', ' ')); } }
  public static void main(String[] a) throws Exception {
    // The clients' threads would go on behind a failure.
    Thread.currentThread().setUncaughtExceptionHandler((thread, failure) -> { failure.printStackTrace(System.out); Runtime.getRuntime().halt(1); });
    PRE = a[0]; us = new DatagramSocket(); Set<String> want = new HashSet<>(Arrays.asList(a).subList(1, a.length));
    if (want.contains("send")) send(); if (want.contains("tx")) tx(); if (want.contains("pull")) pull(); if (want.contains("push")) push1(); if (want.contains("retry")) retry(); if (want.contains("order")) order();
    if (want.contains("bcast")) bcast(); if (want.contains("sql")) sql(); if (want.contains("lite")) lite(); if (want.contains("reply")) reply(); if (want.contains("delay")) delay(); if (want.contains("recall")) recall(); if (want.contains("zip")) zip();
    label("-"); say("done"); System.exit(0);
  }
  static void send() throws Exception {
    DefaultMQProducer p = prod("PG_send"); String t = T("send");
    sc("route-missing", () -> say("missing " + p.fetchPublishMessageQueues(T("missing"))));
    sc("auto-create-TBW102", () -> say("auto " + p.send(msg(t, "A", "k1", "first"))));
    sc("route-existing", () -> { DefaultMQProducer q = prod("PG_send2"); say("queues " + q.fetchPublishMessageQueues(t).size()); q.shutdown(); });
    sc("send-sync", () -> { Message m = msg(t, "A", "k2 k3", "sync é中"); m.putUserProperty("colour", "red"); m.putUserProperty("größe", "3"); m.setFlag(7); SendResult r = p.send(m); say("sync " + r); });
    sc("send-sync-compressed", () -> { byte[] b = new byte[9000]; Arrays.fill(b, (byte) 'x'); say("zip " + p.send(new Message(t, "Z", "kz", b))); });
    sc("send-async", () -> { CountDownLatch l = new CountDownLatch(2); for (int i = 0; i < 2; i++) p.send(msg(t, "B", "ka" + i, "async" + i), new SendCallback() { public void onSuccess(SendResult r) { say("async " + r.getSendStatus()); l.countDown(); } public void onException(Throwable e) { say("async " + e); l.countDown(); } }); l.await(15, TimeUnit.SECONDS); });
    sc("send-oneway", () -> { p.sendOneway(msg(t, "A", "ko", "oneway")); Thread.sleep(300); });
    sc("send-batch-320", () -> { List<Message> b = new ArrayList<>(); for (int i = 0; i < 3; i++) b.add(msg(t, i == 1 ? "B" : "A", "kb" + i, "batch" + i)); say("batch " + p.send(b)); });
    sc("send-ordered-selector", () -> { for (int i = 0; i < 4; i++) say("ord " + p.send(msg(t, "O", "o" + i, "ord" + i), (qs, m, arg) -> qs.get(((Integer) arg) % qs.size()), 1).getMessageQueue().getQueueId()); });
    sc("send-queue-out-of-range", () -> say("q99 " + p.send(msg(t, "A", "q", "x"), new MessageQueue(t, BROKER, 99))));
    sc("send-to-system-topic", () -> say("sys " + p.send(msg("RMQ_SYS_TRANS_HALF_TOPIC", "A", "q", "x"))));
    p.shutdown();
  }
  static void delay() throws Exception {
    DefaultMQProducer p = prod("PG_delay"); String t = T("delay"); ConcurrentHashMap<String, Long> at = new ConcurrentHashMap<>(), got = new ConcurrentHashMap<>();
    p.send(msg(t, "A", "w", "warm")); DefaultMQPushConsumer c = push("CG_delay" + T(""), t, "*"); c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> { for (MessageExt m : ms) got.put(new String(m.getBody()), System.currentTimeMillis()); return ConsumeConcurrentlyStatus.CONSUME_SUCCESS; }); label("-"); c.start(); waitFor(() -> c.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().size() > p.fetchPublishMessageQueues(t).size() && got.containsKey("warm"), 30); Thread.sleep(1500); // its pulls are parked, and not recorded
    sc("delay-level-1", () -> { Message m = msg(t, "D", "d1", "level1"); m.setDelayTimeLevel(1); at.put("level1", System.currentTimeMillis()); say("level1 " + p.send(m)); waitFor(() -> got.containsKey("level1"), 15); say("level1 after ms " + (got.getOrDefault("level1", 0L) - at.get("level1"))); });
    sc("delay-level-99-clamped", () -> { Message m = msg(t, "D", "d99", "level99"); m.setDelayTimeLevel(99); say("level99 " + p.send(m)); });
    sc("timer-delay-ms", () -> { Message m = msg(t, "D", "tm", "timer"); MessageAccessor.putProperty(m, "TIMER_DELAY_MS", "3000"); at.put("timer", System.currentTimeMillis()); say("timer " + p.send(m)); waitFor(() -> got.containsKey("timer"), 15); say("timer after ms " + (got.getOrDefault("timer", 0L) - at.get("timer"))); });
    sc("timer-deliver-ms-past", () -> { Message m = msg(t, "D", "tp", "past"); MessageAccessor.putProperty(m, "TIMER_DELIVER_MS", "" + (System.currentTimeMillis() - 5000)); say("past " + p.send(m)); waitFor(() -> got.containsKey("past"), 10); say("past got " + got.containsKey("past")); });
    sc("timer-too-far", () -> { Message m = msg(t, "D", "tf", "far"); MessageAccessor.putProperty(m, "TIMER_DELAY_SEC", "" + 86400L * 30); say("far " + p.send(m)); });
    sc("recall-370", () -> { Message m = msg(t, "D", "rc", "recalled"); MessageAccessor.putProperty(m, "TIMER_DELAY_MS", "6000"); SendResult r = p.send(m); Object h = r.getClass().getMethod("getRecallHandle").invoke(r); say("handle " + h); say("recall " + p.getClass().getMethod("recallMessage", String.class, String.class).invoke(p, t, h)); Thread.sleep(8000); say("recalled delivered? " + got.containsKey("recalled")); });
    label("-"); c.shutdown(); p.shutdown();
  }
  static void tx() throws Exception {
    TransactionMQProducer p = new TransactionMQProducer("PG_tx" + T("")); p.setNamesrvAddr(NS); p.setSendMsgTimeout(10000); AtomicInteger checks = new AtomicInteger();
    p.setTransactionListener(new TransactionListener() {
      public LocalTransactionState executeLocalTransaction(Message m, Object arg) { return (LocalTransactionState) arg; }
      public LocalTransactionState checkLocalTransaction(MessageExt m) { int n = checks.incrementAndGet(); say("check " + n + " " + new String(m.getBody()) + " " + m.getProperties()); return n == 1 ? LocalTransactionState.UNKNOW : LocalTransactionState.COMMIT_MESSAGE; } });
    String t = T("tx"); p.start();
    sc("tx-commit", () -> say("tx " + p.sendMessageInTransaction(msg(t, "A", "t1", "commit"), LocalTransactionState.COMMIT_MESSAGE)));
    sc("tx-rollback", () -> say("tx " + p.sendMessageInTransaction(msg(t, "A", "t2", "rollback"), LocalTransactionState.ROLLBACK_MESSAGE)));
    sc("tx-check-back", () -> { say("tx " + p.sendMessageInTransaction(msg(t, "A", "t3", "unknown"), LocalTransactionState.UNKNOW)); waitFor(() -> checks.get() >= 2, 30); Thread.sleep(500); });
    label("-"); p.shutdown();
  }
  @SuppressWarnings("deprecation") static void pull() throws Exception {
    DefaultMQProducer p = prod("PG_pull"); String t = T("pull"); for (int i = 0; i < 12; i++) { Message m = msg(t, i % 3 == 0 ? "A" : "B", "k" + i, "m" + i); m.putUserProperty("a", "" + i); try { p.send(m, (qs, x, arg) -> qs.get(0), 0); } catch (Exception e) { p.send(m); } }
    DefaultMQPullConsumer c = new DefaultMQPullConsumer("CG_pull" + T("")); c.setNamesrvAddr(NS); c.start(); MessageQueue q = new MessageQueue(t, BROKER, 0);
    sc("max-min-offset", () -> say("max " + c.maxOffset(q) + " min " + c.minOffset(q)));
    sc("search-offset", () -> say("search past " + c.searchOffset(q, 0) + " now " + c.searchOffset(q, System.currentTimeMillis()) + " future " + c.searchOffset(q, System.currentTimeMillis() + 100000)));
    sc("earliest-store-time", () -> say("earliest " + c.earliestMsgStoreTime(q)));
    sc("pull-found", () -> { PullResult r = c.pull(q, "*", 0, 32); say("pull " + r); });
    sc("pull-tag", () -> say("tag " + c.pull(q, "A", 0, 32)));
    sc("pull-tag-or", () -> say("tag|| " + c.pull(q, "A || C", 0, 32)));
    sc("pull-tag-none", () -> say("none " + c.pull(q, "ZZZ", 0, 32)));
    label("-"); Thread.sleep(1500); // the client wants a heartbeat's answer before it pulls with SQL
    sc("pull-sql92", () -> say("sql " + c.pull(q, MessageSelector.bySql("a > 5 AND TAGS = 'B'"), 0, 32)));
    sc("pull-sql92-bad", () -> say("sql " + c.pull(q, MessageSelector.bySql("a >"), 0, 32)));
    sc("pull-not-found", () -> say("nf " + c.pull(q, "*", c.maxOffset(q), 32)));
    sc("pull-offset-beyond", () -> say("beyond " + c.pull(q, "*", 100000, 32)));
    sc("pull-offset-negative", () -> say("neg " + c.pull(q, "*", -5, 32)));
    sc("pull-unknown-topic", () -> say("unk " + c.pull(new MessageQueue(T("never"), BROKER, 0), "*", 0, 32)));
    sc("pull-queue-out-of-range", () -> say("q77 " + c.pull(new MessageQueue(t, BROKER, 77), "*", 0, 32)));
    sc("pull-long-poll-woken", () -> { long mx = c.maxOffset(q); ExecutorService ex = Executors.newSingleThreadExecutor(); Future<PullResult> f = ex.submit(() -> c.pullBlockIfNotFound(q, "*", mx, 32)); Thread.sleep(1500); p.send(msg(t, "A", "lp", "wake"), (qs, x, arg) -> qs.get(0), 0); say("woken " + f.get(30, TimeUnit.SECONDS)); ex.shutdown(); });
    sc("pull-long-poll-tag-not-matching", () -> { long mx = c.maxOffset(q); ExecutorService ex = Executors.newSingleThreadExecutor(); Future<PullResult> f = ex.submit(() -> c.pullBlockIfNotFound(q, "NEVER", mx, 32)); Thread.sleep(1000); p.send(msg(t, "A", "lp2", "nowake"), (qs, x, arg) -> qs.get(0), 0); say("tag poll " + f.get(40, TimeUnit.SECONDS)); ex.shutdown(); });
    sc("offset-query-update", () -> { say("fetch " + c.fetchConsumeOffset(q, true)); c.updateConsumeOffset(q, 5); c.getOffsetStore().persist(q); Thread.sleep(300); say("fetch " + c.fetchConsumeOffset(q, true)); c.updateConsumeOffset(q, 2); c.getOffsetStore().persist(q); Thread.sleep(300); say("back " + c.fetchConsumeOffset(q, true)); });
    sc("view-message-by-offset-id", () -> { MessageExt m = c.pull(q, "*", 0, 1).getMsgFoundList().get(0); String id = m instanceof MessageClientExt ? ((MessageClientExt) m).getOffsetMsgId() : m.getMsgId(); say("view " + id + " " + c.viewMessage(t, id)); });
    sc("view-message-unknown", () -> say("view " + c.viewMessage(t, String.format("7F000001%08X00000000000FFFFF", PORT))));
    sc("query-message-by-key", () -> { Thread.sleep(500); say("query " + c.queryMessage(t, "k3", 10, 0, System.currentTimeMillis() + 1000).getMessageList().size()); });
    sc("send-message-back-explicit", () -> { MessageExt m = c.pull(q, "*", 0, 1).getMsgFoundList().get(0); c.sendMessageBack(m, 1, BROKER); Thread.sleep(300); });
    label("-"); c.shutdown(); p.shutdown();
  }
  static void push1() throws Exception {
    DefaultMQProducer p = prod("PG_push"); String t = T("push"); p.send(msg(t, "A", "w", "warm")); AtomicInteger n = new AtomicInteger();
    MessageListenerConcurrently l = (ms, x) -> { n.addAndGet(ms.size()); return ConsumeConcurrentlyStatus.CONSUME_SUCCESS; };
    DefaultMQPushConsumer[] c = new DefaultMQPushConsumer[2]; String g = "CG_push" + T("");
    sc("push-start", () -> { c[0] = push(g, t, "A || B"); c[0].registerMessageListener(l); c[0].start(); Thread.sleep(3000); });
    sc("push-receive", () -> { for (int i = 0; i < 8; i++) p.send(msg(t, i % 4 == 3 ? "C" : "A", "p" + i, "p" + i)); Thread.sleep(2500); say("push got " + n.get() + " (7 wanted: warm + 6)"); });
    sc("push-second-instance-notify-40", () -> { c[1] = push(g, t, "A || B"); c[1].registerMessageListener(l); c[1].start(); Thread.sleep(4000); });
    sc("push-offsets-persisted", () -> Thread.sleep(6000));
    sc("push-instance-leaves", () -> { c[1].shutdown(); Thread.sleep(2500); });
    sc("push-shutdown", () -> c[0].shutdown());
    label("-"); p.shutdown();
  }
  static void retry() throws Exception {
    DefaultMQProducer p = prod("PG_retry"); String t = T("retry"), g = "CG_retry" + T(""); AtomicInteger n = new AtomicInteger(); List<String> seen = new CopyOnWriteArrayList<>(); p.send(msg(t, "A", "r1", "poison"));
    DefaultMQPushConsumer c = push(g, t, "*"); c.setMaxReconsumeTimes(2); c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> { for (MessageExt m : ms) seen.add(m.getTopic() + ":" + m.getReconsumeTimes() + ":" + m.getProperties()); x.setDelayLevelWhenNextConsume(1); n.incrementAndGet(); return ConsumeConcurrentlyStatus.RECONSUME_LATER; });
    sc("retry-to-dlq", () -> { c.start(); waitFor(() -> n.get() >= 3, 75); Thread.sleep(3000); for (String s : seen) say("retry " + s); });
    label("-"); c.shutdown();
    DefaultMQPushConsumer d = push(g + "d", "%DLQ%" + g, "*"); AtomicReference<String> got = new AtomicReference<>(""); d.registerMessageListener((MessageListenerConcurrently) (ms, x) -> { got.set(ms.get(0).toString()); return ConsumeConcurrentlyStatus.CONSUME_SUCCESS; });
    sc("dlq-read", () -> { d.start(); waitFor(() -> got.get().length() > 0, 30); say("dlq: " + got.get()); });
    label("-"); d.shutdown(); p.shutdown();
  }
  static void order() throws Exception {
    DefaultMQProducer p = prod("PG_ord"); String t = T("ord"), g = "CG_ord" + T(""); for (int i = 0; i < 8; i++) { final int k = i; p.send(msg(t, "A", "o", "o" + i), (qs, m, x) -> qs.get(k % 2), 0); } List<String> seen = new CopyOnWriteArrayList<>(); AtomicInteger fails = new AtomicInteger();
    DefaultMQPushConsumer c = push(g, t, "*"); c.setConsumeMessageBatchMaxSize(1); c.registerMessageListener((MessageListenerOrderly) (ms, x) -> { String b = new String(ms.get(0).getBody()); if (b.equals("o2") && fails.incrementAndGet() <= 2) { x.setSuspendCurrentQueueTimeMillis(500); return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT; } seen.add(ms.get(0).getQueueId() + ":" + b + ":" + ms.get(0).getReconsumeTimes()); return ConsumeOrderlyStatus.SUCCESS; });
    sc("orderly-lock", () -> { c.start(); waitFor(() -> seen.size() >= 8, 30); say("orderly " + seen); });
    DefaultMQPushConsumer c2 = push(g, t, "*"); c2.registerMessageListener((MessageListenerOrderly) (ms, x) -> ConsumeOrderlyStatus.SUCCESS);
    sc("orderly-lock-contended", () -> { c2.start(); Thread.sleep(5000); c2.shutdown(); });
    sc("orderly-unlock", () -> { c.shutdown(); Thread.sleep(300); });
    label("-"); p.shutdown();
  }
  static void bcast() throws Exception {
    DefaultMQProducer p = prod("PG_bc"); String t = T("bc"), g = "CG_bc" + T(""); p.send(msg(t, "A", "b", "old")); AtomicInteger n = new AtomicInteger(); DefaultMQPushConsumer[] cs = new DefaultMQPushConsumer[2];
    sc("broadcast", () -> { for (int i = 0; i < 2; i++) { DefaultMQPushConsumer c = cs[i] = push(g, t, "*"); broadcasts(c); c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> { n.addAndGet(ms.size()); return ConsumeConcurrentlyStatus.CONSUME_SUCCESS; }); c.start(); } Thread.sleep(3000); p.send(msg(t, "A", "b", "new")); Thread.sleep(2000); say("broadcast got " + n.get()); for (DefaultMQPushConsumer c : cs) c.shutdown(); });
    label("-"); p.shutdown();
  }
  static void sql() throws Exception {
    DefaultMQProducer p = prod("PG_sql"); String t = T("sql"), g = "CG_sql" + T(""); List<String> seen = new CopyOnWriteArrayList<>(); for (int i = 0; i < 6; i++) { Message m = msg(t, i % 2 == 0 ? "A" : "B", "s", "s" + i); m.putUserProperty("a", "" + i); m.putUserProperty("c", i % 2 == 0 ? "x" : "y"); p.send(m); }
    sc("push-sql92", () -> { DefaultMQPushConsumer c = push(g, t, "*"); c.unsubscribe(t); c.subscribe(t, MessageSelector.bySql("(a BETWEEN 2 AND 4) AND c IN ('x') OR a IS NULL")); c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> { for (MessageExt m : ms) seen.add(new String(m.getBody())); return ConsumeConcurrentlyStatus.CONSUME_SUCCESS; }); c.start(); waitFor(() -> seen.size() >= 2, 20); Thread.sleep(1000); say("sql got " + seen); c.shutdown(); });
    sc("push-sql92-bad", () -> { DefaultMQPushConsumer c = push(g + "b", t, "*"); c.unsubscribe(t); c.subscribe(t, MessageSelector.bySql("a >< 5")); c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS); try { c.start(); Thread.sleep(1500); } finally { c.shutdown(); } });
    label("-"); p.shutdown();
  }
  static void lite() throws Exception {
    DefaultMQProducer p = prod("PG_lite"); String t = T("lite"), g = "CG_lite" + T(""); for (int i = 0; i < 6; i++) p.send(msg(t, "A", "l", "l" + i)); 
    DefaultLitePullConsumer c = new DefaultLitePullConsumer(g); c.setNamesrvAddr(NS); c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET); c.setAutoCommit(false);
    sc("litepull-subscribe", () -> { c.subscribe(t, "*"); c.start(); int n = 0; for (int i = 0; i < 10 && n < 6; i++) n += c.poll(1500).size(); say("lite got " + n); c.commitSync(); Thread.sleep(500); });
    sc("litepull-seek", () -> { MessageQueue q = c.assignment().iterator().next(); c.seekToBegin(q); int n = 0; for (int i = 0; i < 3; i++) n += c.poll(800).size(); say("seek got " + n + " committed " + c.committed(q) + " bytime " + c.offsetForTimestamp(q, System.currentTimeMillis())); });
    sc("litepull-shutdown", () -> c.shutdown());
    label("-"); p.shutdown();
  }
  static void reply() throws Exception {
    DefaultMQProducer p = prod("PG_req"), r = prod("PG_rep"); String t = T("req"), g = "CG_req" + T(""); p.send(msg(t, "A", "w", "warm"));
    sc("request-reply-324", () -> { DefaultMQPushConsumer c = push(g, t, "*"); c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> { for (MessageExt m : ms) try { if (m.getProperty("CORRELATION_ID") != null) r.send(org.apache.rocketmq.client.utils.MessageUtil.createReplyMessage(m, "answer".getBytes())); } catch (Exception e) { say("rep " + e); } return ConsumeConcurrentlyStatus.CONSUME_SUCCESS; }); c.start(); Thread.sleep(2500); Message a = p.request(msg(t, "A", "rq", "question"), 10000); say("reply " + new String(a.getBody())); c.shutdown(); });
    label("-"); p.shutdown(); r.shutdown();
  }
  static void recall() throws Exception { DefaultMQProducer p = prod("PG_rec"); String t = T("rec"); p.send(msg(t, "A", "w", "warm"));
    sc("recall-370-enabled", () -> { Message m = msg(t, "D", "rc", "recalled"); MessageAccessor.putProperty(m, "TIMER_DELAY_MS", "6000"); SendResult r = p.send(m); Object h = r.getClass().getMethod("getRecallHandle").invoke(r); say("recall " + p.getClass().getMethod("recallMessage", String.class, String.class).invoke(p, t, h)); Thread.sleep(8500); long mx = 0; for (MessageQueue q : p.fetchPublishMessageQueues(t)) mx += p.maxOffset(q); say("stored after the time: " + mx + " (1 = only warm)"); });
    sc("recall-370-bad-handle", () -> say("bad " + p.getClass().getMethod("recallMessage", String.class, String.class).invoke(p, t, "bm9wZQ"))); label("-"); p.shutdown(); }
  @SuppressWarnings("deprecation") static void zip() throws Exception { DefaultMQProducer p = prod("PG_zip"); String t = T("zip"); byte[] b = new byte[9000]; Arrays.fill(b, (byte) 'x');
    sc("zip-send", () -> say("zip " + p.send(new Message(t, "Z", "kz", b)))); DefaultMQPullConsumer c = new DefaultMQPullConsumer("CG_zip" + T("")); c.setNamesrvAddr(NS); c.start();
    sc("zip-pull", () -> { for (int q = 0; q < 4; q++) { PullResult r = c.pull(new MessageQueue(t, BROKER, q), "*", 0, 4); if (r.getMsgFoundList() != null) say("pulled sysFlag " + r.getMsgFoundList().get(0).getSysFlag() + " len " + r.getMsgFoundList().get(0).getBody().length); } }); label("-"); c.shutdown(); p.shutdown(); }
  /** The class of the model has another package in each version. */
  static void broadcasts(DefaultMQPushConsumer c) throws Exception { for (java.lang.reflect.Method m : c.getClass().getMethods()) if (m.getName().equals("setMessageModel")) m.invoke(c, Arrays.stream(m.getParameterTypes()[0].getEnumConstants()).filter(x -> x.toString().equals("BROADCASTING") || ((Enum<?>) x).name().equals("BROADCASTING")).findFirst().get()); }
}
