// Who the Apache Java client says that it is, and what it says where it is not believed.

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.SslAuthenticationException;

class Secured {
    static Map<String, Scenarios.Scenario> all() {
        Map<String, Scenarios.Scenario> found = new LinkedHashMap<>();
        found.put("wrong-password", topic -> refused(SaslAuthenticationException.class));
        found.put("unknown-authority", topic -> refused(SslAuthenticationException.class));
        return found;
    }

    static Properties settings() {
        Properties found = new Properties();
        String file = System.getenv("CLIENT_PROPERTIES");
        if (file != null) {
            try (var reader = Files.newBufferedReader(Path.of(file))) {
                found.load(reader);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
        return found;
    }

    private static void refused(Class<? extends Exception> kind) throws Exception {
        try (Admin admin = Admin.create(Scenarios.common())) {
            admin.describeCluster().nodes().get(20, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            Scenarios.check(kind.isInstance(error.getCause()), error);
            return;
        }
        throw new AssertionError("let in");
    }
}
