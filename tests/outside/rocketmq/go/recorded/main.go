// Scenarios of rocketmq-client-go that are recorded: ./recorded ADDRESS LABELS BROKER. Each announces itself to the recorder.
package main
import ("context"; "fmt"; "net"; "os"; "sync/atomic"; "time"; rmq "github.com/apache/rocketmq-client-go/v2"; "github.com/apache/rocketmq-client-go/v2/consumer"; "github.com/apache/rocketmq-client-go/v2/primitive"; "github.com/apache/rocketmq-client-go/v2/producer"; "github.com/apache/rocketmq-client-go/v2/rlog"; "github.com/apache/rocketmq-client-go/v2/admin")
var us net.Conn
func label(s string) { time.Sleep(60 * time.Millisecond); if s != "-" { s = "go2.1/" + s }; us.Write([]byte(s)); time.Sleep(40 * time.Millisecond) }
func main() { us, _ = net.Dial("udp", "127.0.0.1:"+os.Args[2]); rlog.SetLogLevel("error"); ns := primitive.NamesrvAddr{os.Args[1]}; ctx := context.Background()
 label("admin-create-topic"); a, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(ns))); if err == nil { fmt.Println("create", a.CreateTopic(ctx, admin.WithTopicCreate("GoT"), admin.WithBrokerAddrCreate(os.Args[3]))) }
 label("producer-start"); p, _ := rmq.NewProducer(producer.WithNameServer(ns), producer.WithGroupName("PG_go"), producer.WithRetry(1), producer.WithSendMsgTimeout(10*time.Second)); fmt.Println("start", p.Start())
 label("send-sync"); m := primitive.NewMessage("GoT", []byte("go sync")); m.WithTag("A"); m.WithKeys([]string{"gk"}); m.WithProperty("p", "1"); r, e := p.SendSync(ctx, m); fmt.Println(r, e)
 label("send-async"); ch := make(chan int); p.SendAsync(ctx, func(c context.Context, r *primitive.SendResult, e error) { fmt.Println("async", r.Status, e); close(ch) }, primitive.NewMessage("GoT", []byte("go async"))); <-ch
 label("send-oneway"); fmt.Println(p.SendOneWay(ctx, primitive.NewMessage("GoT", []byte("go oneway"))))
 label("send-batch"); r, e = p.SendSync(ctx, primitive.NewMessage("GoT", []byte("gb1")), primitive.NewMessage("GoT", []byte("gb2"))); fmt.Println(r, e)
 label("send-delay-level"); d := primitive.NewMessage("GoT", []byte("go delay")); d.WithDelayTimeLevel(1); r, e = p.SendSync(ctx, d); fmt.Println(r, e)
 label("push-start"); var n, f int32; c, _ := rmq.NewPushConsumer(consumer.WithNameServer(ns), consumer.WithGroupName("CG_go"), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithInstance("gi"))
 c.Subscribe("GoT", consumer.MessageSelector{}, func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) { for _, m := range ms { atomic.AddInt32(&n, 1); if string(m.Body) == "go async" && atomic.AddInt32(&f, 1) < 2 { cc, _ := primitive.GetConcurrentlyCtx(ctx); cc.DelayLevelWhenNextConsume = 1; return consumer.ConsumeRetryLater, nil } }; return consumer.ConsumeSuccess, nil }); fmt.Println("push", c.Start())
 time.Sleep(12 * time.Second); fmt.Println("go got", atomic.LoadInt32(&n), "of 7 (6 + one retry)"); label("push-shutdown"); c.Shutdown(); label("producer-shutdown"); p.Shutdown()
 label("tx"); t, _ := rmq.NewTransactionProducer(&L{}, producer.WithNameServer(ns), producer.WithGroupName("PG_gotx"), producer.WithInstanceName("gtx")); fmt.Println(t.Start()); tr, e := t.SendMessageInTransaction(ctx, primitive.NewMessage("GoT", []byte("go tx"))); fmt.Println(tr, e); time.Sleep(300 * time.Millisecond); t.Shutdown(); label("-"); os.Exit(0) }
type L struct{}
func (l *L) ExecuteLocalTransaction(*primitive.Message) primitive.LocalTransactionState { return primitive.CommitMessageState }
func (l *L) CheckLocalTransaction(*primitive.MessageExt) primitive.LocalTransactionState { return primitive.CommitMessageState }
