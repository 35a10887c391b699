package io.prefix;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.prefix.internal.Constants;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * A failure that the library reported. The message is one sentence with the value and the limit that it broke. The
 * failures that programs tell apart have a class of their own, and all have a {@link #status()}.
 */
public class PrefixException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The status as a number. */
    private final int code;

    /** The function that failed. */
    private final String domain;

    /** See {@link #partialTexts()}; an exception may be serialized, and so an ArrayList. */
    private ArrayList<String> partialTexts = new ArrayList<>();

    /** A value that makes no sense, an unknown option, a number outside its limits, a prompt that is too long. */
    public static final class InvalidArgument extends PrefixException {
        private static final long serialVersionUID = 1;

        private InvalidArgument(int code, String domain, String message) {
            super(code, domain, message);
        }
    }

    /** A released object, or the wrong moment. */
    public static final class Misuse extends PrefixException {
        private static final long serialVersionUID = 1;

        private Misuse(int code, String domain, String message) {
            super(code, domain, message);
        }
    }

    /** No such file, namespace, recipe. {@link #toIOException()} gives a {@link NoSuchFileException}. */
    public static final class NotFound extends PrefixException {
        private static final long serialVersionUID = 1;

        private NotFound(int code, String domain, String message) {
            super(code, domain, message);
        }
    }

    /** A file that is corrupt, or a model or device that cannot be run. */
    public static final class Model extends PrefixException {
        private static final long serialVersionUID = 1;

        private Model(int code, String domain, String message) {
            super(code, domain, message);
        }
    }

    /** No memory, or cache_bytes is too small for the request. */
    public static final class OutOfMemory extends PrefixException {
        private static final long serialVersionUID = 1;

        private OutOfMemory(int code, String domain, String message) {
            super(code, domain, message);
        }
    }

    /** The deadline_ms of a request has passed. */
    public static final class Deadline extends PrefixException {
        private static final long serialVersionUID = 1;

        private Deadline(int code, String domain, String message) {
            super(code, domain, message);
        }
    }

    /** The request was cancelled. */
    public static final class Cancelled extends PrefixException {
        private static final long serialVersionUID = 1;

        private Cancelled(int code, String domain, String message) {
            super(code, domain, message);
        }
    }

    // The native code calls this one.
    private static PrefixException of(int code, byte[] domain, byte[] message) {
        return of(code, new String(domain, UTF_8), new String(message, UTF_8));
    }

    static PrefixException of(int code, String domain, String message) {
        return switch (code) {
            case Constants.PREFIX_ERR_INVALID_ARGUMENT,
                    Constants.PREFIX_ERR_INVALID_UTF8,
                    Constants.PREFIX_ERR_UNKNOWN_OPTION,
                    Constants.PREFIX_ERR_OUT_OF_RANGE,
                    Constants.PREFIX_ERR_PROMPT_TOO_LONG -> new InvalidArgument(code, domain, message);
            case Constants.PREFIX_ERR_MISUSE, Constants.PREFIX_ERR_FORKED -> new Misuse(code, domain, message);
            case Constants.PREFIX_ERR_NOT_FOUND -> new NotFound(code, domain, message);
            case Constants.PREFIX_ERR_FORMAT,
                    Constants.PREFIX_ERR_UNSUPPORTED_MODEL,
                    Constants.PREFIX_ERR_UNSUPPORTED_DEVICE -> new Model(code, domain, message);
            case Constants.PREFIX_ERR_OUT_OF_MEMORY,
                    Constants.PREFIX_ERR_OUT_OF_DEVICE_MEMORY,
                    Constants.PREFIX_ERR_CACHE_FULL -> new OutOfMemory(code, domain, message);
            case Constants.PREFIX_ERR_DEADLINE -> new Deadline(code, domain, message);
            case Constants.PREFIX_ERR_CANCELLED -> new Cancelled(code, domain, message);
            default -> new PrefixException(code, domain, message);
        };
    }

    // The classes above add to it, nobody else.
    private PrefixException(int code, String domain, String message) {
        super(message);
        this.code = code;
        this.domain = domain;
    }

    /**
     * What kind of failure it is.
     *
     * @return the status, never OK
     */
    public Status status() {
        return Status.of(code);
    }

    /**
     * The number of the status in the C interface, also where {@link Status} does not know it.
     *
     * @return the number
     */
    public int code() {
        return code;
    }

    /**
     * The same as the failure of a file, for interfaces that have these.
     *
     * @return a {@link NoSuchFileException} where the status is NOT_FOUND, else a plain IOException; this is its cause
     */
    public IOException toIOException() {
        IOException e = this instanceof NotFound ? new NoSuchFileException(getMessage()) : new IOException(getMessage());
        e.initCause(this);
        return e;
    }

    /**
     * Where it came from.
     *
     * @return the C function that failed, or "request" for the failure of a request
     */
    public String domain() {
        return domain;
    }

    /**
     * What there is of the texts of a call that writes, as {@link Tasks#chat} or {@link Tasks#generate}, where a deadline
     * cut all of them off.
     *
     * @return one text for each item, "" for one that was not begun; none where the call writes no texts
     */
    public List<String> partialTexts() {
        return Collections.unmodifiableList(partialTexts);
    }

    PrefixException withPartialTexts(List<String> texts) {
        partialTexts = new ArrayList<>(texts);
        return this;
    }
}
