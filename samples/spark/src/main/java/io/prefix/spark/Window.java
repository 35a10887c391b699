package io.prefix.spark;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;

/**
 * Results of a stream, in its order, of which at most so much is in work at a time: what is pulled here pulls from the
 * source, and a source of any length takes the memory of a few batches.
 *
 * <pre>
 *   source ──► [ batch | batch | batch ] ──► next()
 *               begun    begun   waited for
 * </pre>
 *
 * @param <I> what comes
 * @param <O> what it becomes
 */
final class Window<I, O> implements Iterator<O>, AutoCloseable {
    /** A batch that was begun. */
    interface Work<O> extends AutoCloseable {
        /** Waits for the results, one for each input, in their order. */
        List<O> results();

        /** Ends what still runs, and gives back what it holds. */
        @Override
        void close();
    }

    private final Iterator<I> source;
    private final int batch;
    private final int batches;
    private final Function<List<I>, Work<O>> begin;
    private final ArrayDeque<Work<O>> working = new ArrayDeque<>();
    private Iterator<O> ready = List.<O>of().iterator();
    private boolean closed;

    /**
     * A window over a stream.
     *
     * @param source is read by the thread that calls {@link #next}
     * @param batch the most inputs of a batch
     * @param batches the most batches that are begun and not yet handed out
     * @param begin starts to work on a batch and returns at once
     */
    Window(Iterator<I> source, int batch, int batches, Function<List<I>, Work<O>> begin) {
        require(batch, batches);
        this.source = source;
        this.batch = batch;
        this.batches = batches;
        this.begin = begin;
    }

    static void require(int batch, int batches) {
        if (batch < 1 || batches < 1) {
            throw new IllegalArgumentException(
                    "a window has at least one batch of one row; these are " + batches + " of " + batch);
        }
    }

    @Override
    public boolean hasNext() {
        while (!ready.hasNext()) {
            fill();
            Work<O> oldest;
            synchronized (working) {
                oldest = working.peek();
            }
            if (oldest == null) {
                return false;
            }
            ready = oldest.results().iterator();
            synchronized (working) {
                working.remove(oldest);
            }
            oldest.close();
        }
        return true;
    }

    @Override
    public O next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        return ready.next();
    }

    /** Begins batches until there are enough, before the oldest one is waited for. */
    private void fill() {
        while (begun() < batches && source.hasNext()) {
            List<I> inputs = new ArrayList<>(batch);
            while (inputs.size() < batch && source.hasNext()) {
                inputs.add(source.next());
            }
            Work<O> work = begin.apply(inputs);
            synchronized (working) {
                if (!closed) {
                    working.add(work);
                    continue;
                }
            }
            work.close();
        }
    }

    private int begun() {
        synchronized (working) {
            return closed ? batches : working.size();
        }
    }

    /** Ends all work; may come from another thread and more than once. */
    @Override
    public void close() {
        List<Work<O>> open;
        synchronized (working) {
            closed = true;
            open = new ArrayList<>(working);
            working.clear();
        }
        open.forEach(Work::close);
    }
}
