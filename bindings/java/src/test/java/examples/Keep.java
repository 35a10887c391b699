package examples;

import io.prefix.Batch;
import io.prefix.Engine;
import io.prefix.Lease;
import io.prefix.Request;
import io.prefix.SnapshotInfo;
import java.nio.file.Path;
import java.util.stream.IntStream;

/** Computes a prompt before anybody asks, keeps it in memory, and saves it for a later process. */
public final class Keep {
    public static void main(String[] arguments) {
        Program.run(arguments, 2, "usage: Keep MODEL FILE", Keep::run);
    }

    private static void run(String[] arguments) throws InterruptedException {
        int[] system = IntStream.range(1, 100).toArray();
        try (Engine engine = Engine.open(Path.of(arguments[0]));
                Batch batch = engine.batch()) {
            batch.add(Request.warm(system));
            engine.run(batch).close();
            try (Lease lease = engine.cache().pin(system)) { // until it is closed
                System.out.println(lease.tokens() + " tokens stay in the cache");
                SnapshotInfo saved = engine.saveSnapshot(Path.of(arguments[1])); // a later process begins with loadSnapshot
                System.out.println(saved.tokens() + " tokens in " + saved.bytes() + " bytes");
            }
        }
    }

    private Keep() {}
}
