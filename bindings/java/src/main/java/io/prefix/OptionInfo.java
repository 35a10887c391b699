package io.prefix;

import java.util.List;

/**
 * An option.
 *
 * @param key its name
 * @param type what values it takes
 * @param scope where it belongs
 * @param minimum of numbers
 * @param maximum of numbers
 * @param defaultValue as text
 * @param values all there are; empty when the text is free
 * @param doc one sentence
 */
public record OptionInfo(
        String key,
        Type type,
        Scope scope,
        double minimum,
        double maximum,
        String defaultValue,
        List<String> values,
        String doc) {
    /** Types of options, in the order of the C interface. */
    public enum Type {
        /** A whole number. */
        INT,
        /** A number. */
        FLOAT,
        /** true or false. */
        BOOL,
        /** A text. */
        STRING,
        /** Whole numbers with commas between them. */
        INT_LIST,
        /** Texts. */
        STRING_LIST,
        /** Of a newer library. */
        UNKNOWN
    }

    /** Where an option belongs, in the order of the C interface. */
    public enum Scope {
        /** To an engine. */
        ENGINE,
        /** To requests of every kind. */
        REQUEST,
        /** To requests that generate. */
        GENERATE,
        /** To requests for embeddings. */
        EMBEDDING,
        /** To tasks, which take those of their requests too. */
        TASK,
        /** Of a newer library. */
        UNKNOWN
    }
}
