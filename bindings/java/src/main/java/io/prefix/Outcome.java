package io.prefix;

import java.util.SortedMap;

/**
 * What came of a task of {@link Tasks}.
 *
 * @param results of the items that succeeded
 * @param failures of the others, by the number of the item, which is that of the document, text, question or prompt
 * @param <T> what results are
 */
public record Outcome<T>(T results, SortedMap<Integer, PrefixException> failures) {}
