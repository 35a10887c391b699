package io.prefix;

import java.util.Optional;

/** Hands the messages of the library to a logger; see {@link Prefix#forwardLog}. */
public final class LogForwarder implements AutoCloseable {
    private static final long PAUSE_MILLIS = 100;

    private final System.Logger logger;
    private final Thread thread;

    LogForwarder(System.Logger logger) {
        this.logger = logger;
        thread = new Thread(this::run, "prefix-log");
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        while (!Thread.currentThread().isInterrupted()) {
            forward();
            try {
                Thread.sleep(PAUSE_MILLIS);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    private synchronized void forward() {
        for (Optional<Prefix.Message> next = Prefix.nextLog(); next.isPresent(); next = Prefix.nextLog()) {
            try {
                logger.log(next.get().level(), next.get().text());
            } catch (RuntimeException e) {
                // Of the logger. The next message is another one.
            }
        }
    }

    /** Stops, after the messages that have come so far. */
    @Override
    public void close() {
        thread.interrupt();
        forward();
    }
}
