package io.prefix;

import java.util.Collections;
import java.util.List;
import java.util.SortedMap;

/**
 * Some items of a task failed. It has what became of the others, so that nothing that was computed is lost, and its
 * status and message are those of the first item that failed.
 */
public final class TaskException extends PrefixException {
    private static final long serialVersionUID = 1;

    private final transient Object results;
    private final transient SortedMap<Integer, PrefixException> failures;

    TaskException(Object results, SortedMap<Integer, PrefixException> failures) {
        super(first(failures).code(), "item", message(failures));
        this.results = results;
        this.failures = Collections.unmodifiableSortedMap(failures);
    }

    private static PrefixException first(SortedMap<Integer, PrefixException> failures) {
        return failures.get(failures.firstKey());
    }

    private static String message(SortedMap<Integer, PrefixException> failures) {
        String first = "item " + failures.firstKey() + ": " + first(failures).getMessage();
        return failures.size() == 1 ? first : first + " (and " + (failures.size() - 1) + " more failed)";
    }

    /**
     * What failed.
     *
     * @return by the number of the item, which is that of the document, text or question
     */
    public SortedMap<Integer, PrefixException> failures() {
        return failures;
    }

    /**
     * What {@link Tasks#rerank} would have returned.
     *
     * @return the documents that have a score, the best first
     */
    @SuppressWarnings("unchecked")
    public List<Tasks.Ranked> ranking() {
        return (List<Tasks.Ranked>) results(List.class, Tasks.Ranked.class, "ranking");
    }

    /**
     * What {@link Tasks#embed} or {@link Tasks#classify} would have returned.
     *
     * @return rows of NaN for texts that failed
     */
    public Matrix values() {
        return (Matrix) results(Matrix.class, null, "values");
    }

    /**
     * What {@link Tasks#answer} would have returned.
     *
     * @return for questions that failed, what there is of their answers
     */
    @SuppressWarnings("unchecked")
    public List<String> answers() {
        return (List<String>) results(List.class, String.class, "answers");
    }

    private Object results(Class<?> type, Class<?> element, String what) {
        boolean right = type.isInstance(results)
                && (!(results instanceof List<?> list) || list.isEmpty() || element.isInstance(list.get(0)));
        if (!right) {
            throw new IllegalStateException("a task of this kind has no " + what);
        }
        return results;
    }
}
