package io.prefix;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Tasks in one call: text in, scores, vectors or answers out. When an item fails, the exception names it; use {@link
 * Task} where the others count all the same. When the thread is interrupted the work ends.
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
     * @throws InterruptedException when this thread is interrupted
     */
    public static List<Ranked> rerank(
            Engine engine, Tokenizer tokenizer, String query, List<String> documents, Map<String, ?> options)
            throws InterruptedException {
        try (Task task = finish(Task.rerank(engine, tokenizer, List.of(query), documents, options))) {
            Matrix scores = task.values();
            List<Ranked> ranking = new ArrayList<>();
            for (int document : task.order(0)) {
                ranking.add(new Ranked(document, scores.get(0, document)));
            }
            return ranking;
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
     * @throws InterruptedException when this thread is interrupted
     */
    public static Matrix embed(Engine engine, Tokenizer tokenizer, List<String> texts, Map<String, ?> options)
            throws InterruptedException {
        try (Task task = finish(Task.embed(engine, tokenizer, texts, options))) {
            return task.values();
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
     * @throws InterruptedException when this thread is interrupted
     */
    public static List<String> answer(
            Engine engine, Tokenizer tokenizer, String context, List<String> questions, Map<String, ?> options)
            throws InterruptedException {
        try (Task task = finish(Task.answer(engine, tokenizer, context, questions, options))) {
            List<String> answers = new ArrayList<>();
            for (int i = 0; i < questions.size(); i++) {
                answers.add(task.text(i));
            }
            return answers;
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
     * @throws InterruptedException when this thread is interrupted
     */
    public static Matrix classify(
            Engine engine, Tokenizer tokenizer, List<String> texts, List<String> labels, Map<String, ?> options)
            throws InterruptedException {
        try (Task task = finish(Task.classify(engine, tokenizer, texts, labels, options))) {
            return task.values();
        }
    }

    /** Runs a task; closes it when that fails or an item did. */
    private static Task finish(Task task) throws InterruptedException {
        try {
            task.run();
            Status[] statuses = task.statuses();
            for (int item = 0; item < statuses.length; item++) {
                if (statuses[item] != Status.OK) {
                    String message = "item " + item + ": " + task.result(item).message();
                    throw new PrefixException(statuses[item].code(), "item", message);
                }
            }
            return task;
        } catch (InterruptedException | RuntimeException e) {
            task.close(); // cancels what runs
            throw e;
        }
    }

    private Tasks() {}
}
