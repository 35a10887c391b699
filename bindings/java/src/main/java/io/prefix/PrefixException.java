package io.prefix;

import static java.nio.charset.StandardCharsets.UTF_8;

/** A failure that the library reported. The message is one sentence with the value and the limit that it broke. */
public class PrefixException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The status as a number. */
    private final int code;

    /** The function that failed. */
    private final String domain;

    // The native code calls this one.
    private PrefixException(int code, byte[] domain, byte[] message) {
        this(code, new String(domain, UTF_8), new String(message, UTF_8));
    }

    // Others in this package may add to it, nobody else.
    PrefixException(int code, String domain, String message) {
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
     * Where it came from.
     *
     * @return the C function that failed, or "request" for the failure of a request
     */
    public String domain() {
        return domain;
    }
}
