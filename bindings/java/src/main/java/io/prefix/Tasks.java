package io.prefix;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Supplier;

/**
 * Tasks in one call: text in, scores, vectors or answers out. When items fail, the {@link TaskException} names them and
 * has the results of the others. When the thread is interrupted the work ends.
 */
public final class Tasks {
    /**
     * A document with its score.
     *
     * @param document number in the list of documents
     * @param score higher is better
     */
    public record Ranked(int document, float score) {}

    /**
     * Sorts documents by how well they fit a query.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param query what is looked for
     * @param documents where
     * @param options see {@link Task}; may be null
     * @return the best first
     * @throws TaskException when an item failed; it has the results of the others
     * @throws InterruptedException when this thread is interrupted
     */
    public static List<Ranked> rerank(
            Engine engine, Tokenizer tokenizer, String query, List<String> documents, Map<String, ?> options)
            throws InterruptedException {
        try (Task task = Task.rerank(engine, tokenizer, List.of(query), documents, options)) {
            return results(task, () -> {
                Matrix scores = task.values();
                List<Ranked> ranking = new ArrayList<>();
                for (int document : task.order(0)) {
                    ranking.add(new Ranked(document, scores.get(0, document)));
                }
                return ranking;
            });
        }
    }

    /**
     * Makes a vector of each text.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param texts what to embed
     * @param options see {@link Task}; may be null
     * @return one row per text
     * @throws TaskException when an item failed; it has the results of the others
     * @throws InterruptedException when this thread is interrupted
     */
    public static Matrix embed(Engine engine, Tokenizer tokenizer, List<String> texts, Map<String, ?> options)
            throws InterruptedException {
        try (Task task = Task.embed(engine, tokenizer, texts, options)) {
            return results(task, task::values);
        }
    }

    /**
     * Answers many questions about one context, which is computed once.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param context what the questions are about
     * @param questions all of them
     * @param options see {@link Task}; may be null
     * @return one answer per question
     * @throws TaskException when an item failed; it has the results of the others
     * @throws InterruptedException when this thread is interrupted
     */
    public static List<String> answer(
            Engine engine, Tokenizer tokenizer, String context, List<String> questions, Map<String, ?> options)
            throws InterruptedException {
        try (Task task = Task.answer(engine, tokenizer, context, questions, options)) {
            return results(task, () -> {
                List<String> answers = new ArrayList<>();
                for (int i = 0; i < questions.size(); i++) {
                    answers.add(task.textSoFar(i));
                }
                return answers;
            });
        }
    }

    /**
     * Gives the probability of each label for each text.
     *
     * @param engine runs the model
     * @param tokenizer of the model
     * @param texts what to classify
     * @param labels all there are
     * @param options see {@link Task}; may be null
     * @return one row per text, one column per label
     * @throws TaskException when an item failed; it has the results of the others
     * @throws InterruptedException when this thread is interrupted
     */
    public static Matrix classify(
            Engine engine, Tokenizer tokenizer, List<String> texts, List<String> labels, Map<String, ?> options)
            throws InterruptedException {
        try (Task task = Task.classify(engine, tokenizer, texts, labels, options)) {
            return results(task, task::values);
        }
    }

    /** Runs a task and reads its results; throws them with the failures when there are any. */
    private static <T> T results(Task task, Supplier<T> read) throws InterruptedException {
        task.run();
        SortedMap<Integer, PrefixException> failures = new TreeMap<>();
        Status[] statuses = task.statuses();
        for (int item = 0; item < statuses.length; item++) {
            if (statuses[item] != Status.OK) {
                failures.put(item, new PrefixException(statuses[item].code(), "item", task.result(item).message()));
            }
        }
        T results = read.get();
        if (!failures.isEmpty()) {
            throw new TaskException(results, failures);
        }
        return results;
    }

    private Tasks() {}
}
