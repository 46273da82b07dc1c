// Runs Kafka's command-line tools one after the other in one JVM, as their scripts would in a JVM each:
// java -cp 'target/classes:KAFKA/libs/*' Tools. A line names the class and its words, with \u0001 between them;
// the answer is "STATUS BYTES BYTES\n", then what was printed to standard output and to standard error.

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

public class Tools {
    static volatile CompletableFuture<Integer> status;

    public static void main(String[] given) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((code, message) -> ended(code));
        Exit.setHaltProcedure((code, message) -> ended(code));
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] words = line.split("\u0001");
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            int code = run(words[0], Arrays.copyOfRange(words, 1, words.length), out, err);
            answers.print(code + " " + out.size() + " " + err.size() + "\n");
            out.writeTo(answers);
            err.writeTo(answers);
            answers.flush();
        }
    }

    static int run(String tool, String[] words, ByteArrayOutputStream out, ByteArrayOutputStream err)
        throws Exception {
        CompletableFuture<Integer> own = new CompletableFuture<>();
        status = own;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Thread thread = new Thread(() -> {
            try {
                Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) words);
                own.complete(0);
            } catch (Throwable error) {
                System.err.print("Exception in thread \"main\" ");
                (error.getCause() == null ? error : error.getCause()).printStackTrace();
                own.complete(1);
            }
        }, "main");
        thread.setDaemon(true);
        thread.start();
        int code = own.get();
        System.out.flush();
        System.err.flush();
        return code;
    }

    /** As after the end of a JVM, nothing comes after an exit: the thread that called it never goes on. */
    static void ended(int code) {
        status.complete(code);
        while (true) {
            LockSupport.park();
        }
    }
}
