package io.prefix;

import static io.prefix.Buffers.utf8;

import io.prefix.internal.Layout;
import io.prefix.internal.Native;
import io.prefix.internal.Struct;
import java.lang.ref.Reference;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Turns texts into scores, vectors or answers. A task works in {@link #run()} and has its results afterwards; {@link
 * Tasks} does all of that at once. Options are those of prefix_text.h by name: recipe, instruction, truncate,
 * max_prompt_tokens, raw, top_n, prompt, dimensions, normalize, chunk_tokens, and request with options of the engine's
 * requests; null for the defaults. Items are texts or questions; in rerank, item q * documents + d is document d for
 * query q. An item that fails does not fail the task.
 */
public final class Task extends Owned {
    private interface Maker {
        long make(long engine, long tokenizer, byte[] options);
    }

    private final ReentrantLock running = new ReentrantLock(); // the library takes one caller of run at a time

    private Task(Engine engine, Tokenizer tokenizer, Map<String, ?> options, Maker maker) {
        super(make(engine, tokenizer, options, maker), "task", Native::prefix_task_release);
    }

    private static long make(Engine engine, Tokenizer tokenizer, Map<String, ?> options, Maker maker) {
        try {
            return maker.make(engine.raw(), tokenizer.raw(), options == null ? null : utf8(Json.of(options)));
        } finally {
            Reference.reachabilityFence(engine);
            Reference.reachabilityFence(tokenizer);
        }
    }

    /**
     * Will score every document for every query; higher is better. Rows are queries, columns documents.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param queries what is looked for
     * @param documents where
     * @param options by name; may be null
     * @return the task; close it when done
     */
    public static Task rerank(
            Engine engine, Tokenizer tokenizer, List<String> queries, List<String> documents, Map<String, ?> options) {
        Buffers.Joined q = new Buffers.Joined(queries);
        Buffers.Joined d = new Buffers.Joined(documents);
        return new Task(
                engine,
                tokenizer,
                options,
                (e, t, o) -> Native.prefix_rerank(e, t, q.bytes, q.offsets, d.bytes, d.offsets, o));
    }

    /**
     * Will make a vector of each text. Rows are texts, columns dimensions.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param texts what to embed
     * @param options by name; may be null
     * @return the task; close it when done
     */
    public static Task embed(Engine engine, Tokenizer tokenizer, List<String> texts, Map<String, ?> options) {
        Buffers.Joined joined = new Buffers.Joined(texts);
        return new Task(
                engine, tokenizer, options, (e, t, o) -> Native.prefix_embed(e, t, joined.bytes, joined.offsets, o));
    }

    /**
     * Will answer many questions about one context, which is computed once. Rows are questions; see {@link #text}.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param context what the questions are about
     * @param questions all of them
     * @param options by name; may be null
     * @return the task; close it when done
     */
    public static Task answer(
            Engine engine, Tokenizer tokenizer, String context, List<String> questions, Map<String, ?> options) {
        Buffers.Joined joined = new Buffers.Joined(questions);
        return new Task(
                engine,
                tokenizer,
                options,
                (e, t, o) -> Native.prefix_answer(e, t, utf8(context), joined.bytes, joined.offsets, o));
    }

    /**
     * Will give the probability of each label for each text. Rows are texts, columns labels.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param texts what to classify
     * @param labels all there are
     * @param options by name; may be null
     * @return the task; close it when done
     */
    public static Task classify(
            Engine engine, Tokenizer tokenizer, List<String> texts, List<String> labels, Map<String, ?> options) {
        Buffers.Joined x = new Buffers.Joined(texts);
        Buffers.Joined l = new Buffers.Joined(labels);
        return new Task(
                engine,
                tokenizer,
                options,
                (e, t, o) -> Native.prefix_classify(e, t, x.bytes, x.offsets, l.bytes, l.offsets, o));
    }

    /**
     * Works until every item has its result.
     *
     * @throws InterruptedException when this thread is interrupted; another run() goes on, cancel() ends the task
     */
    public void run() throws InterruptedException {
        run(Long.MAX_VALUE);
    }

    /**
     * Works for some time.
     *
     * @param timeout the longest time
     * @return whether every item has its result
     * @throws InterruptedException when this thread is interrupted
     */
    public boolean run(Duration timeout) throws InterruptedException {
        return run(timeout.toMillis());
    }

    private boolean run(long millis) throws InterruptedException {
        running.lockInterruptibly();
        try {
            return Job.poll(millis, time -> call(raw -> Native.prefix_task_run(raw, time))) == 0;
        } finally {
            running.unlock();
        }
    }

    /** Ends items that have no result yet with CANCELLED; a run() of another thread returns soon after. */
    public void cancel() {
        call(Native::prefix_task_cancel);
    }

    /**
     * How far a task is.
     *
     * @param done items that have their result
     * @param total all
     */
    public record Progress(long done, long total) {}

    /**
     * How far the task is; any thread may ask.
     *
     * @return counts of items
     */
    public Progress progress() {
        long[] done = new long[1];
        long[] total = new long[1];
        call(raw -> Native.prefix_task_progress(raw, done, total));
        return new Progress(done[0], total[0]);
    }

    /**
     * All numbers in one call.
     *
     * @return NaN for items that failed
     * @throws PrefixException MISUSE before the task has run
     */
    public Matrix values() {
        long[] rows = new long[1];
        long[] columns = new long[1];
        call(raw -> Native.prefix_task_shape(raw, rows, columns));
        float[] flat = Buffers.floats(
                Buffers.room(rows[0] * columns[0]), buffer -> call(raw -> Native.prefix_task_values(raw, buffer)));
        return new Matrix((int) rows[0], (int) columns[0], flat);
    }

    /**
     * The columns of a row from best to worst, without failed ones and at most top_n. Of rerank and classify only.
     *
     * @param row the row
     * @return numbers of columns
     */
    public int[] order(int row) {
        long[] order = Buffers.longs(64, buffer -> call(raw -> Native.prefix_task_order(raw, row, buffer)));
        return Arrays.stream(order).mapToInt(Math::toIntExact).toArray();
    }

    /**
     * What became of every item, in one call.
     *
     * @return one status per item
     */
    public Status[] statuses() {
        int[] codes = Buffers.ints(64, buffer -> call(raw -> Native.prefix_task_statuses(raw, buffer)));
        return Arrays.stream(codes).mapToObj(Status::of).toArray(Status[]::new);
    }

    /**
     * How an item went; its tag is 1 when its prompt was cut.
     *
     * @param item number of the item
     * @return its counts, and its failure
     */
    public Result result(int item) {
        Struct info = new Struct(Layout.RESULT_INFO_SIZE);
        call(raw -> Native.prefix_task_item_info(raw, item, info.bytes));
        return Result.of(
                info,
                () -> Buffers.text(256, buffer -> call(raw -> Native.prefix_task_item_message(raw, item, buffer))));
    }

    /**
     * The answer to a question.
     *
     * @param item number of the question
     * @return the text, without white space around it
     * @throws PrefixException the failure of the item
     */
    public String text(int item) {
        result(item).check();
        return textSoFar(item);
    }

    /**
     * The answer to a question, also what there is of one that was cancelled or ran out of time.
     *
     * @param item number of the question
     * @return the text, without white space around it
     */
    public String textSoFar(int item) {
        return Buffers.text(256, buffer -> call(raw -> Native.prefix_task_item_partial_text(raw, item, buffer)));
    }

    /**
     * What the engine did for the whole task.
     *
     * @return counts and time
     */
    public Totals totals() {
        Struct totals = new Struct(Layout.JOB_TOTALS_SIZE);
        call(raw -> Native.prefix_task_totals(raw, totals.bytes));
        return Totals.of(totals);
    }
}
