package io.prefix;

import io.prefix.internal.Constants;
import java.util.Collections;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.IntStream;

/**
 * Tasks in one call: text in, scores, vectors or texts out. An item that fails is one of {@link Outcome#failures}; when
 * no item succeeds, the failure of the first one is thrown. With option deadline_ms, what is done by then is kept, and of
 * texts what was begun, in {@link PrefixException#partialTexts()} where none was finished. When the thread is interrupted
 * the work ends, and its results are lost; a {@link Task} keeps them.
 */
public final class Tasks {
    /**
     * Sorts documents by how well they fit a query.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param query what is looked for
     * @param documents where
     * @param options see {@link Task#create}; may be null
     * @return the best first, without those that failed
     * @throws InterruptedException when this thread is interrupted
     */
    public static Outcome<List<Ranked>> rerank(
            Engine engine, Tokenizer tokenizer, String query, List<String> documents, Options options)
            throws InterruptedException {
        try (Task task = Task.create(engine, tokenizer, "rerank", options)) {
            task.addProduct(List.of(query), documents);
            return run(task, done -> done.ranking(0, documents.size()));
        }
    }

    /**
     * Makes a vector of each text.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param texts what to embed
     * @param options see {@link Task#create}; may be null
     * @return one row per text; of NaN for one that failed
     * @throws InterruptedException when this thread is interrupted
     */
    public static Outcome<Matrix> embed(Engine engine, Tokenizer tokenizer, List<String> texts, Options options)
            throws InterruptedException {
        try (Task task = Task.create(engine, tokenizer, "embed", options)) {
            task.add(texts);
            return run(task, Task::values);
        }
    }

    /**
     * Gives the probability of each label for each text.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param texts what to classify
     * @param labels all there are; none: those of the model's classification head, in its order
     * @param options see {@link Task#create}; may be null
     * @return one row per text, one column per label; NaN for a text that failed
     * @throws InterruptedException when this thread is interrupted
     */
    public static Outcome<Matrix> classify(
            Engine engine, Tokenizer tokenizer, List<String> texts, List<String> labels, Options options)
            throws InterruptedException {
        try (Task task = Task.create(engine, tokenizer, "classify", options)) {
            if (!labels.isEmpty()) {
                task.setLabels(labels);
            }
            task.add(texts);
            return run(task, Task::values);
        }
    }

    /**
     * Answers many questions about one context, which is computed once.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param context what the questions are about
     * @param questions all of them
     * @param options see {@link Task#create}; may be null
     * @return one answer per question, with option samples several, one behind the other; of one that failed, what
     *     there is
     * @throws InterruptedException when this thread is interrupted
     */
    public static Outcome<List<String>> answer(
            Engine engine, Tokenizer tokenizer, String context, List<String> questions, Options options)
            throws InterruptedException {
        try (Task task = Task.create(engine, tokenizer, "answer", options)) {
            task.addProduct(List.of(context), questions);
            return write(task);
        }
    }

    /**
     * Continues each prompt.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param prompts all of them
     * @param options see {@link Task#create}; may be null
     * @return one text per prompt, with option samples several, one behind the other; of one that failed, what there is
     * @throws InterruptedException when this thread is interrupted
     */
    public static Outcome<List<String>> generate(
            Engine engine, Tokenizer tokenizer, List<String> prompts, Options options) throws InterruptedException {
        try (Task task = Task.create(engine, tokenizer, "generate", options)) {
            task.add(prompts);
            return write(task);
        }
    }

    /**
     * Gives the next message of a conversation.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param messages so far
     * @param options see {@link Task#create}; may be null; option samples is for {@link #chats}
     * @return its text
     * @throws InterruptedException when this thread is interrupted
     */
    public static String chat(Engine engine, Tokenizer tokenizer, List<Message> messages, Options options)
            throws InterruptedException {
        return chat(engine, tokenizer, messages, new ChatOptions(), options);
    }

    /**
     * Gives the next message of a conversation, whose template is told something besides the messages.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param messages so far
     * @param chat what its template is told, see {@link ChatOptions}
     * @param options see {@link Task#create}; may be null; option samples is for {@link #chats}
     * @return its text
     * @throws InterruptedException when this thread is interrupted
     */
    public static String chat(
            Engine engine, Tokenizer tokenizer, List<Message> messages, ChatOptions chat, Options options)
            throws InterruptedException {
        try (Task task = Task.create(engine, tokenizer, "chat", options)) {
            task.addChat(messages, chat);
            if (task.size() != 1) {
                throw PrefixException.of(
                        Constants.PREFIX_ERR_INVALID_ARGUMENT,
                        "Tasks.chat",
                        "option samples is " + task.size() + "; chat gives one text, chats gives all");
            }
            return write(task).results().get(0);
        }
    }

    /**
     * Gives the next message of each conversation.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param conversations the messages so far of each
     * @param chat what the template is told besides, see {@link ChatOptions}
     * @param options see {@link Task#create}; may be null
     * @return one text per conversation, with option samples several, one behind the other; of one that failed, what
     *     there is
     * @throws InterruptedException when this thread is interrupted
     */
    public static Outcome<List<String>> chats(
            Engine engine,
            Tokenizer tokenizer,
            List<? extends List<Message>> conversations,
            ChatOptions chat,
            Options options)
            throws InterruptedException {
        try (Task task = Task.create(engine, tokenizer, "chat", options)) {
            for (List<Message> messages : conversations) {
                task.addChat(messages, chat);
            }
            return write(task);
        }
    }

    private static List<String> texts(Task task) {
        return IntStream.range(0, task.size()).mapToObj(task::partialText).toList();
    }

    private static Outcome<List<String>> write(Task task) throws InterruptedException {
        return run(task, Tasks::texts, Tasks::texts);
    }

    private static <T> Outcome<T> run(Task task, Function<Task, T> read) throws InterruptedException {
        return run(task, read, done -> List.of());
    }

    /** Runs a task and reads its results, or what was begun of them where none is finished. */
    private static <T> Outcome<T> run(Task task, Function<Task, T> read, Function<Task, List<String>> begun)
            throws InterruptedException {
        task.run();
        SortedMap<Integer, PrefixException> failures = new TreeMap<>();
        Status[] statuses = task.statuses();
        for (int item = 0; item < statuses.length; item++) {
            if (statuses[item] != Status.OK) {
                failures.put(item, task.result(item).failure("item"));
            }
        }
        if (!failures.isEmpty() && failures.size() == statuses.length) {
            throw failures.get(0).withPartialTexts(begun.apply(task));
        }
        return new Outcome<>(read.apply(task), Collections.unmodifiableSortedMap(failures));
    }

    private Tasks() {}
}
