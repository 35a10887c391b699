package io.prefix;

/** Why a request ended, in the order of the C interface. */
public enum Finish {
    /** It did not generate. */
    NONE,
    /** A token that ends the text. */
    STOP,
    /** As many tokens as were allowed. */
    LENGTH,
    /** It was cancelled. */
    CANCELLED,
    /** It failed. */
    ERROR,
    /** Of a newer library. */
    UNKNOWN
}
