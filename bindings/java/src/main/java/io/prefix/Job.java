package io.prefix;

import io.prefix.internal.Constants;
import io.prefix.internal.Layout;
import io.prefix.internal.Native;
import io.prefix.internal.Struct;
import java.lang.ref.Reference;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.function.LongUnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** A batch that runs or has run. Any thread may use it. Closing it cancels what still runs. */
public final class Job extends Owned {
    /** The longest wait inside the library, so that an interrupt is seen. */
    static final long SLICE_MILLIS = 100;

    private final int requests;
    private final int values;
    private final EventPublisher publisher = new EventPublisher(this::look, this::tellEvents, this::cancel);

    Job(long raw, int requests, int values) {
        super(raw, "job", Native::prefix_job_release);
        this.requests = requests;
        this.values = values;
    }

    /**
     * Counts the requests.
     *
     * @return how many the batch had
     */
    public int size() {
        return requests;
    }

    /**
     * Waits for all requests, whatever becomes of them.
     *
     * @throws InterruptedException when this thread is interrupted; the job goes on
     */
    public void await() throws InterruptedException {
        poll(Long.MAX_VALUE, timeout -> call(raw -> Native.prefix_job_wait(raw, timeout)));
    }

    /**
     * Waits for all requests for some time.
     *
     * @param timeout the longest time
     * @return whether the job is done
     * @throws InterruptedException when this thread is interrupted; the job goes on
     */
    public boolean await(Duration timeout) throws InterruptedException {
        return poll(millis(timeout), time -> call(raw -> Native.prefix_job_wait(raw, time))) == 0;
    }

    /** As many as a long holds, for times without end; -1 for all that are negative, from which can be subtracted. */
    static long millis(Duration time) {
        if (time.isNegative()) {
            return -1;
        }
        try {
            return time.toMillis();
        } catch (ArithmeticException e) {
            return Long.MAX_VALUE;
        }
    }

    /** Repeats a waiting call in slices until it has an answer; the last status otherwise, which is negative. */
    static long poll(long millis, LongUnaryOperator wait) throws InterruptedException {
        long begin = System.nanoTime();
        for (;;) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            long left = millis - (System.nanoTime() - begin) / 1_000_000;
            long answer = wait.applyAsLong(Math.max(0, Math.min(SLICE_MILLIS, left)));
            if (answer != -Constants.PREFIX_ERR_TIMEOUT || left <= 0) {
                return answer;
            }
        }
    }

    /** Ends the requests that still run with CANCELLED. Returns at once; {@link #await()} says when it is done. */
    public void cancel() {
        call(Native::prefix_job_cancel);
    }

    /** To fire and forget: the job goes on after {@link #close()}. */
    public void detach() {
        call(Native::prefix_job_detach);
    }

    /**
     * {@link #cancel()} for one request.
     *
     * @param request number in the batch
     */
    public void cancelRequest(int request) {
        call(raw -> Native.prefix_job_cancel_request(raw, request));
    }

    /**
     * Counts the requests that are over.
     *
     * @return up to {@link #size()}
     */
    public int finishedCount() {
        return (int) call(Native::prefix_job_finished_count);
    }

    /**
     * A future of this job.
     *
     * @return completed with this job when it is done, by a daemon thread; cancelling the future, or ending it by
     *     orTimeout or another way before that, cancels the job
     */
    public CompletableFuture<Job> whenDone() {
        return Waiter.watch(this, this::tell, Job::cancel);
    }

    /** Lets the queue have the tag when the job is done. */
    void tell(long queue, long tag) {
        call(raw -> Native.prefix_job_notify(raw, queue, tag));
    }

    /**
     * The next event.
     *
     * @param timeout how long to wait for it
     * @return empty when there was none in that time, or there will be no more
     * @throws InterruptedException when this thread is interrupted; the job goes on
     */
    public Optional<Event> nextEvent(Duration timeout) throws InterruptedException {
        return nextEvent(millis(timeout));
    }

    private Optional<Event> nextEvent(long millis) throws InterruptedException {
        Struct event = new Struct(Layout.EVENT_SIZE);
        long answer = poll(millis, time -> call(raw -> Native.prefix_job_next_event(raw, time, event.bytes)));
        return answer < 0 ? Optional.empty() : Optional.of(Event.of(event, ""));
    }

    /**
     * What happens until the job is over. Each event goes to one reader. An interrupt while it waits is a
     * PrefixException with status CANCELLED, and the thread stays interrupted; the job goes on.
     *
     * @return a stream that waits for each event
     */
    public Stream<Event> events() {
        return EventStream.of(() -> nextEvent(Long.MAX_VALUE));
    }

    /**
     * The same for reactive streams: no thread waits, and events come as the subscriber asks for them. Of tokens that it
     * asks for late, {@link Event.Kind#LOST} tells how many there were.
     *
     * @return for one subscriber; cancelling the subscription cancels the job
     */
    public Flow.Publisher<Event> publisher() {
        return publisher;
    }

    private Event look() {
        Struct event = new Struct(Layout.EVENT_SIZE);
        long answer = call(raw -> Native.prefix_job_next_event(raw, 0, event.bytes));
        return answer == -Constants.PREFIX_ERR_NO_EVENT
                ? EventPublisher.OVER
                : answer < 0 ? null : Event.of(event, "");
    }

    private void tellEvents(long queue, long tag) {
        call(raw -> Native.prefix_job_notify_events(raw, queue, tag));
    }

    /**
     * How a request went.
     *
     * @param request number in the batch
     * @return its counts, and its failure
     * @throws PrefixException MISUSE while the request is unfinished, OUT_OF_RANGE for a number beyond the batch
     */
    public Result result(int request) {
        Struct info = new Struct(Layout.RESULT_INFO_SIZE);
        call(raw -> Native.prefix_job_result_info(raw, request, info.bytes));
        return Result.of(
                info,
                () -> Buffers.text(256, buffer -> call(raw -> Native.prefix_job_result_message(raw, request, buffer))));
    }

    /**
     * The numbers of one request; see {@link Request}. {@link #allValues()} reads those of all requests at once.
     *
     * @param request number in the batch
     * @return its values
     * @throws PrefixException the failure of the request
     */
    public float[] values(int request) {
        result(request).check();
        return Buffers.floats(64, buffer -> call(raw -> Native.prefix_job_result_values(raw, request, buffer)));
    }

    /**
     * What a generate request generated, with the token that stopped it.
     *
     * @param request number in the batch
     * @return its tokens
     * @throws PrefixException the failure of the request
     */
    public int[] tokens(int request) {
        result(request).check();
        return partialTokens(request);
    }

    /**
     * What a generate request had generated, also where it was cancelled or ran out of time.
     *
     * @param request number in the batch
     * @return its tokens
     */
    public int[] partialTokens(int request) {
        return Buffers.ints(64, buffer -> call(raw -> Native.prefix_job_partial_tokens(raw, request, buffer)));
    }

    /**
     * The log-probabilities of the tokens of a generate request (with option logprobs), or of those of all choices in
     * a row.
     *
     * @param request number in the batch
     * @return one per token
     * @throws PrefixException the failure of the request
     */
    public float[] logprobs(int request) {
        result(request).check();
        return Buffers.floats(64, buffer -> call(raw -> Native.prefix_job_result_logprobs(raw, request, buffer)));
    }

    /**
     * With option top_logprobs, the likeliest tokens of each place: that of a token which was generated or scored.
     *
     * @param request number in the batch
     * @return those of each place, in their order; empty without the option
     * @throws PrefixException the failure of the request
     */
    public List<List<TopToken>> top(int request) {
        result(request).check();
        List<TopToken> all = TopToken.of((tokens, logprobs) ->
                call(raw -> Native.prefix_job_result_top(raw, request, tokens, logprobs)));
        if (all.isEmpty()) {
            return List.of();
        }
        int generated = tokens(request).length;
        int places = generated > 0 ? generated : values(request).length;
        int width = all.size() / places;
        return IntStream.range(0, places)
                .mapToObj(place -> all.subList(place * width, (place + 1) * width))
                .toList();
    }

    /**
     * Those of one place of a generate request, as soon as its event can be read, and however the request ends.
     *
     * @param request number in the batch
     * @param place number of the generated token
     * @return in their order
     * @throws PrefixException OUT_OF_RANGE for a place that is not there
     */
    public List<TopToken> partialTop(int request, int place) {
        return TopToken.of((tokens, logprobs) ->
                call(raw -> Native.prefix_job_partial_top(raw, request, place, tokens, logprobs)));
    }

    /**
     * The numbers of all requests, in one call of the library. Those of requests that failed are NaN.
     *
     * @return the values
     * @throws PrefixException MISUSE before the job is done
     */
    public Values allValues() {
        long[] offsets = new long[requests + 1];
        float[] flat =
                Buffers.floats(values, buffer -> call(raw -> Native.prefix_job_all_values(raw, buffer, offsets)));
        return new Values(flat, offsets);
    }

    /**
     * The numbers of all requests into memory of the caller, without a copy in between.
     *
     * @param out direct and in the byte order of the machine; its position moves behind the last number
     * @return where each request begins, counted from the old position; the last entry is how many numbers there are
     * @throws IllegalArgumentException when the buffer is not direct or has too little room; it is unchanged then
     */
    public long[] allValues(FloatBuffer out) {
        if (!out.isDirect() || out.order() != ByteOrder.nativeOrder() || out.isReadOnly()) {
            throw new IllegalArgumentException("the buffer must be direct, writable and in native byte order");
        }
        long[] offsets = new long[requests + 1];
        FloatBuffer room = out.slice();
        try {
            long needed = call(raw -> Native.prefix_job_all_values(raw, null, offsets));
            if (needed > room.capacity()) {
                throw new IllegalArgumentException(needed + " values do not fit a buffer of " + room.capacity());
            }
            call(raw -> Native.prefix_job_all_values(raw, room, offsets));
            out.position(out.position() + (int) needed);
            return offsets;
        } finally {
            Reference.reachabilityFence(out);
        }
    }

    /**
     * The first request that failed.
     *
     * @return its number; empty when none did
     * @throws PrefixException MISUSE before the job is done
     */
    public OptionalInt firstFailure() {
        try {
            call(Native::prefix_job_first_failure);
            return OptionalInt.empty();
        } catch (PrefixException e) {
            if (finishedCount() < requests) {
                throw e; // the job is not done
            }
            // The exception, which is that of the request, has no number.
            return IntStream.range(0, requests)
                    .filter(request -> result(request).status() != Status.OK)
                    .findFirst();
        }
    }

    /**
     * What the whole job did.
     *
     * @return complete when the job is done
     */
    public Totals totals() {
        Struct totals = new Struct(Layout.JOB_TOTALS_SIZE);
        call(raw -> Native.prefix_job_get_totals(raw, totals.bytes));
        return Totals.of(totals);
    }
}
