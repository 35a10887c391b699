package io.prefix;

import static io.prefix.Buffers.utf8;
import static java.nio.charset.StandardCharsets.UTF_8;

import io.prefix.internal.Constants;
import io.prefix.internal.Layout;
import io.prefix.internal.Native;
import io.prefix.internal.Struct;
import java.lang.ref.Reference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongUnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Turns texts into scores, vectors or texts. A task is filled with items, submitted once, and waited for; what its
 * prompts share is computed once. {@link Tasks} does all of that in one call. Any thread may use it. Closing it cancels
 * what still runs.
 *
 * <pre>
 * kind        an item is               its values, or text
 * "rerank"    a query, a document      one score; higher is better
 * "embed"     a text                   a vector
 * "classify"  a text                   a probability for each label
 * "answer"    a context, a question    a text
 * "generate"  a prompt                 a text
 * "chat"      a conversation           a text
 * </pre>
 */
public final class Task extends Owned {
    private final AtomicLong tag = new AtomicLong();
    private final EventPublisher publisher = new EventPublisher(this::look, this::tellEvents, this::cancel);

    private Task(long raw) {
        super(raw, "task", Native::prefix_task_release);
    }

    /**
     * Makes a task without items.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param kind see above
     * @param options those of tasks and of the requests that it makes, for instance recipe and namespace; may be null
     * @return the task; close it when done
     * @throws PrefixException INVALID_ARGUMENT for an option that means nothing to this kind, NOT_FOUND for the recipe
     */
    public static Task create(Engine engine, Tokenizer tokenizer, String kind, Options options) {
        Objects.requireNonNull(engine, "engine");
        Objects.requireNonNull(tokenizer, "tokenizer");
        try {
            long settings = options == null ? 0 : options.raw();
            return new Task(Native.prefix_task_create(engine.raw(), tokenizer.raw(), utf8(kind), settings));
        } finally {
            Reference.reachabilityFence(engine);
            Reference.reachabilityFence(tokenizer);
            Reference.reachabilityFence(options);
        }
    }

    /**
     * Says which tag comes back with the items that are added from now on; it is 0 before.
     *
     * @param tag any number
     * @return this
     */
    public Task tag(long tag) {
        this.tag.set(tag);
        return this;
    }

    /**
     * The labels of all items of classify, in place of earlier ones.
     *
     * @param labels all there are
     * @return this
     */
    public Task setLabels(List<String> labels) {
        byte[] packed = Buffers.pack(labels);
        call(raw -> Native.prefix_task_set_labels(raw, packed));
        return this;
    }

    /**
     * Adds items. Where an item has two texts they follow each other: query, document, query, document. An item with a
     * bad text fails alone, later.
     *
     * @param texts of all items
     * @return the number of the first item
     */
    public int add(List<String> texts) {
        byte[] packed = Buffers.pack(texts);
        return Math.toIntExact(call(raw -> Native.prefix_task_add(raw, packed, tag.get())));
    }

    /**
     * Adds items, as {@link #add(List)} does.
     *
     * @param texts of all items
     * @return the number of the first item
     */
    public int add(String... texts) {
        return add(Arrays.asList(texts));
    }

    /**
     * Adds an item for every second text with every first one, as all documents for each query.
     *
     * @param firsts queries or contexts
     * @param seconds documents or questions
     * @return the number of the first item; firsts i with seconds j is item i * seconds.size() + j after it
     */
    public int addProduct(List<String> firsts, List<String> seconds) {
        byte[] first = Buffers.pack(firsts);
        byte[] second = Buffers.pack(seconds);
        return Math.toIntExact(call(raw -> Native.prefix_task_add_product(raw, first, second, tag.get())));
    }

    /**
     * Adds a conversation to a task of kind chat.
     *
     * @param messages so far
     * @return the number of the item
     */
    public int addChat(List<Message> messages) {
        return addChat(messages, new ChatOptions());
    }

    /**
     * Adds a conversation to a task of kind chat, with what the model's template is told besides. One that the template
     * or the library refuses fails alone, later.
     *
     * @param messages so far
     * @param options see {@link ChatOptions}
     * @return the number of the item
     */
    public int addChat(List<Message> messages, ChatOptions options) {
        return add(options.item(messages));
    }

    /** Starts the task, once; nothing can be added after it. Prompts of its beginning are encoded before it returns. */
    public void submit() {
        call(Native::prefix_task_submit);
    }

    /**
     * Waits for all items, whatever becomes of them.
     *
     * @throws InterruptedException when this thread is interrupted; the task goes on
     */
    public void await() throws InterruptedException {
        Job.poll(Long.MAX_VALUE, timeout -> call(raw -> Native.prefix_task_wait(raw, timeout)));
    }

    /**
     * Waits for all items for some time.
     *
     * @param timeout the longest time
     * @return whether the task is done
     * @throws InterruptedException when this thread is interrupted; the task goes on
     */
    public boolean await(Duration timeout) throws InterruptedException {
        return Job.poll(Job.millis(timeout), time -> call(raw -> Native.prefix_task_wait(raw, time))) == 0;
    }

    /**
     * Submits the task and waits for it.
     *
     * @throws InterruptedException when this thread is interrupted; the task has been cancelled then, and what is done
     *     keeps its result
     */
    public void run() throws InterruptedException {
        submit();
        try {
            await();
        } catch (InterruptedException e) {
            cancel();
            throw e;
        }
    }

    /**
     * A future of this task, before or after it is submitted.
     *
     * @return completed with this task when it is done, by a daemon thread; cancelling the future, or ending it by
     *     orTimeout or another way before that, cancels the task
     */
    public CompletableFuture<Task> whenDone() {
        return Waiter.watch(
                this, (queue, notice) -> call(raw -> Native.prefix_task_notify(raw, queue, notice)), Task::cancel);
    }

    /**
     * Ends items that have no result yet with CANCELLED; texts that were begun keep what there is. Returns at once;
     * {@link #await()} says when it is done.
     */
    public void cancel() {
        call(Native::prefix_task_cancel);
    }

    /**
     * Counts the items.
     *
     * @return all that were added
     */
    public int size() {
        return (int) call(Native::prefix_task_count);
    }

    /**
     * Counts the items that are over.
     *
     * @return up to {@link #size()}
     */
    public int finishedCount() {
        return (int) call(Native::prefix_task_finished_count);
    }

    /**
     * What the task is made of, as JSON: its recipe, and why it has this one.
     *
     * @return an object with kind, recipe, method, reason and model
     */
    public String infoJson() {
        return Buffers.text(256, buffer -> call(raw -> Native.prefix_task_info_json(raw, buffer)));
    }

    /**
     * The next event: TEXT with option stream, FINISHED or ERROR when an item can be read. The pieces of a text add up
     * to {@link #text}.
     *
     * @param timeout how long to wait for it
     * @return empty when there was none in that time, or there will be no more
     * @throws InterruptedException when this thread is interrupted; the task goes on
     */
    public Optional<Event> nextEvent(Duration timeout) throws InterruptedException {
        return nextEvent(Job.millis(timeout));
    }

    private Optional<Event> nextEvent(long millis) throws InterruptedException {
        EventReader reader = new EventReader();
        return Job.poll(millis, reader) < 0 ? Optional.empty() : Optional.of(reader.event);
    }

    private Event look() {
        EventReader reader = new EventReader();
        return reader.applyAsLong(0) == -Constants.PREFIX_ERR_NO_EVENT ? EventPublisher.OVER : reader.event;
    }

    private void tellEvents(long queue, long notice) {
        call(raw -> Native.prefix_task_notify_events(raw, queue, notice));
    }

    /** Reads an event with a text of any length, waiting for it for some milliseconds. */
    private final class EventReader implements LongUnaryOperator {
        private Event event; // null while there is none

        @Override
        public long applyAsLong(long millis) {
            Struct event = new Struct(Layout.EVENT_SIZE);
            for (int room = 256; ; ) {
                byte[] text = new byte[room];
                long needed = call(raw -> Native.prefix_task_next_event(raw, millis, event.bytes, text));
                if (needed < 0) {
                    return needed;
                }
                if (needed < room) { // there is a zero behind it
                    this.event = Event.of(event, new String(text, 0, (int) needed, UTF_8));
                    return needed;
                }
                room = Buffers.room(needed + 1);
            }
        }
    }

    /**
     * What happens until the task is over. Each event goes to one reader. An interrupt while it waits is a
     * PrefixException with status CANCELLED, and the thread stays interrupted; the task goes on.
     *
     * @return a stream that waits for each event
     */
    public Stream<Event> events() {
        return EventStream.of(() -> nextEvent(Long.MAX_VALUE));
    }

    /**
     * The same for reactive streams: no thread waits, and events come as the subscriber asks for them.
     *
     * @return for one subscriber; cancelling the subscription cancels the task
     */
    public Flow.Publisher<Event> publisher() {
        return publisher;
    }

    /**
     * The numbers of all items in one call.
     *
     * @return one row per item, of NaN for one that failed or is unfinished; without columns for kinds that make texts
     */
    public Matrix values() {
        int columns = (int) call(Native::prefix_task_width);
        int rows = size();
        float[] flat = Buffers.floats(
                Buffers.room((long) rows * columns),
                buffer -> call(raw -> Native.prefix_task_all_values(raw, buffer)));
        return new Matrix(rows, columns, flat);
    }

    /**
     * The numbers of one item.
     *
     * @param item its number
     * @return its values
     * @throws PrefixException the failure of the item
     */
    public float[] values(int item) {
        return Buffers.floats(64, buffer -> call(raw -> Native.prefix_task_item_values(raw, item, buffer)));
    }

    /**
     * The tokens that the engine is given for an item, as {@link Cache#lookup} and {@link Cache#pin} take them: its
     * prompt, and what is scored after it, but for labels. They are there before submit() too.
     *
     * @param item its number
     * @return its tokens
     */
    public int[] tokens(int item) {
        return Buffers.ints(256, buffer -> call(raw -> Native.prefix_task_item_tokens(raw, item, buffer)));
    }

    /**
     * The text of an item.
     *
     * @param item its number
     * @return the text, without white space around it
     * @throws PrefixException the failure of the item
     */
    public String text(int item) {
        return Buffers.text(256, buffer -> call(raw -> Native.prefix_task_item_text(raw, item, buffer)));
    }

    /**
     * The text of an item, also what there is of one that was cancelled or ran out of time.
     *
     * @param item its number
     * @return the text, without white space around it
     */
    public String partialText(int item) {
        return Buffers.text(256, buffer -> call(raw -> Native.prefix_task_item_partial_text(raw, item, buffer)));
    }

    /**
     * With option logprobs or top_logprobs, the tokens that the text of an item is made of: without those of a stop text,
     * and without the one that ended the text. With option stream also while the text is written: those that begin in a
     * piece are there as soon as the piece is.
     *
     * @param item its number
     * @return its tokens; empty without these options
     * @throws PrefixException MISUSE while the item is unfinished, without option stream
     */
    public List<TextToken> logprobs(int item) {
        return logprobs(item, 0);
    }

    /**
     * The same from one token on.
     *
     * @param item its number
     * @param first number of the first token that is wanted
     * @return the tokens from there on
     * @throws PrefixException OUT_OF_RANGE for a number beyond how many there are
     */
    public List<TextToken> logprobs(int item, int first) {
        float[][] logprobs = new float[1][];
        long[][] offsets = new long[1][];
        int[] tokens = Buffers.ints(64, buffer -> {
            logprobs[0] = new float[buffer.length];
            offsets[0] = new long[buffer.length];
            return call(raw ->
                    Native.prefix_task_item_logprobs(raw, item, first, buffer, logprobs[0], offsets[0]));
        });
        List<TextToken> found = new ArrayList<>(tokens.length);
        for (int i = 0; i < tokens.length; i++) {
            long place = (long) first + i;
            List<TopToken> top = i > 0 && found.get(0).top().isEmpty()
                    ? List.of() // where one place has none, no place has
                    : TopToken.of((ids, values) ->
                            call(raw -> Native.prefix_task_item_top(raw, item, place, ids, values)));
            found.add(new TextToken(tokens[i], logprobs[0][i], offsets[0][i], top));
        }
        return List.copyOf(found);
    }

    /**
     * How an item went.
     *
     * @param item its number
     * @return its counts, and its failure
     * @throws PrefixException MISUSE while the item is unfinished, OUT_OF_RANGE for one that does not exist
     */
    public Result result(int item) {
        Struct info = new Struct(Layout.RESULT_INFO_SIZE);
        call(raw -> Native.prefix_task_item_info(raw, item, info.bytes));
        return Result.of(
                info,
                () -> Buffers.text(256, buffer -> call(raw -> Native.prefix_task_item_message(raw, item, buffer))));
    }

    /**
     * Sorts some of the numbers of {@link #values()}, without those of failed items and at most option top_n. Of rerank
     * these are items, as the documents of one query; of classify with L labels, those of item i begin at i * L.
     *
     * @param first number of the first one
     * @param count how many
     * @return the best first
     * @throws PrefixException MISUSE for a kind whose values have no order, OUT_OF_RANGE
     */
    public List<Ranked> ranking(int first, int count) {
        int guess = Math.max(1, Math.min(count, 1024));
        float[][] scores = new float[1][];
        long[] order = Buffers.longs(guess, buffer -> {
            scores[0] = new float[buffer.length];
            return call(raw -> Native.prefix_task_ranking(raw, first, count, buffer, scores[0]));
        });
        return IntStream.range(0, order.length)
                .mapToObj(i -> new Ranked((int) order[i], scores[0][i]))
                .toList();
    }

    /**
     * What became of every item, in one call.
     *
     * @return one status per item; NO_EVENT for one that is unfinished
     */
    public Status[] statuses() {
        int[] codes = Buffers.ints(64, buffer -> call(raw -> Native.prefix_task_statuses(raw, buffer)));
        return Arrays.stream(codes).mapToObj(Status::of).toArray(Status[]::new);
    }

    /**
     * The first item that failed.
     *
     * @return its number; empty when none has so far
     */
    public OptionalInt firstFailure() {
        Status[] statuses = statuses();
        return IntStream.range(0, statuses.length)
                .filter(item -> statuses[item] != Status.OK && statuses[item] != Status.NO_EVENT)
                .findFirst();
    }

    /**
     * What the engine did for the whole task so far.
     *
     * @return counts and time
     */
    public Totals totals() {
        Struct totals = new Struct(Layout.JOB_TOTALS_SIZE);
        call(raw -> Native.prefix_task_get_totals(raw, totals.bytes));
        return Totals.of(totals);
    }
}
