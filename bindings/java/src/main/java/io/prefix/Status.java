package io.prefix;

import io.prefix.internal.Constants;
import io.prefix.internal.Native;

/** What became of a call or a request. */
public enum Status {
    /** It succeeded. */
    OK(Constants.PREFIX_OK),
    /** A null, an empty list, a value that makes no sense. */
    INVALID_ARGUMENT(Constants.PREFIX_ERR_INVALID_ARGUMENT),
    /** Text that is not UTF-8. */
    INVALID_UTF8(Constants.PREFIX_ERR_INVALID_UTF8),
    /** No such option; the message may name one like it. */
    UNKNOWN_OPTION(Constants.PREFIX_ERR_UNKNOWN_OPTION),
    /** A number outside its limits. */
    OUT_OF_RANGE(Constants.PREFIX_ERR_OUT_OF_RANGE),
    /** Never from these bindings. */
    STRUCT_TOO_OLD(Constants.PREFIX_ERR_STRUCT_TOO_OLD),
    /** Never from this package, which asks again with more room. */
    BUFFER_TOO_SMALL(Constants.PREFIX_ERR_BUFFER_TOO_SMALL),
    /** The wrong moment, or an object that another thread closed. */
    MISUSE(Constants.PREFIX_ERR_MISUSE),
    /** Called in the child of a fork. */
    FORKED(Constants.PREFIX_ERR_FORKED),
    /** No such file, namespace, result. */
    NOT_FOUND(Constants.PREFIX_ERR_NOT_FOUND),
    /** The system could not read or write. */
    IO(Constants.PREFIX_ERR_IO),
    /** A corrupt or contradictory file. */
    FORMAT(Constants.PREFIX_ERR_FORMAT),
    /** A valid model that the library does not run. */
    UNSUPPORTED_MODEL(Constants.PREFIX_ERR_UNSUPPORTED_MODEL),
    /** This machine lacks what was asked for. */
    UNSUPPORTED_DEVICE(Constants.PREFIX_ERR_UNSUPPORTED_DEVICE),
    /** A snapshot of another model or version. */
    INCOMPATIBLE_SNAPSHOT(Constants.PREFIX_ERR_INCOMPATIBLE_SNAPSHOT),
    /** More tokens than the context holds. */
    PROMPT_TOO_LONG(Constants.PREFIX_ERR_PROMPT_TOO_LONG),
    /** The model computed a NaN or an infinity for this request. */
    NOT_FINITE(Constants.PREFIX_ERR_NOT_FINITE),
    /** Memory of the host is used up. */
    OUT_OF_MEMORY(Constants.PREFIX_ERR_OUT_OF_MEMORY),
    /** Memory of the device is used up. */
    OUT_OF_DEVICE_MEMORY(Constants.PREFIX_ERR_OUT_OF_DEVICE_MEMORY),
    /** Option cache_bytes is too small for the request. */
    CACHE_FULL(Constants.PREFIX_ERR_CACHE_FULL),
    /** Too many unfinished requests; try again later. */
    QUEUE_FULL(Constants.PREFIX_ERR_QUEUE_FULL),
    /** Option deadline_ms. */
    DEADLINE(Constants.PREFIX_ERR_DEADLINE),
    /** A wait that ran out. */
    TIMEOUT(Constants.PREFIX_ERR_TIMEOUT),
    /** Cancelled by the caller, or the engine was closed. */
    CANCELLED(Constants.PREFIX_ERR_CANCELLED),
    /** The device is gone. */
    DEVICE_LOST(Constants.PREFIX_ERR_DEVICE_LOST),
    /** An earlier internal failure; open a new engine. */
    ENGINE_FAILED(Constants.PREFIX_ERR_ENGINE_FAILED),
    /** Nothing to poll now. */
    NO_EVENT(Constants.PREFIX_ERR_NO_EVENT),
    /** A bug in the library. */
    INTERNAL(Constants.PREFIX_ERR_INTERNAL),
    /** A status of a newer library. */
    UNKNOWN(-1);

    private final int code;

    Status(int code) {
        this.code = code;
    }

    /**
     * The number in the C interface.
     *
     * @return the number, -1 for {@link #UNKNOWN}
     */
    public int code() {
        return code;
    }

    /**
     * Says whether the same call may succeed later.
     *
     * @return true for QUEUE_FULL, TIMEOUT and NO_EVENT
     */
    public boolean isRetryable() {
        return Native.prefix_status_is_retryable(code) != 0;
    }

    static Status of(int code) {
        for (Status status : values()) {
            if (status.code == code) {
                return status;
            }
        }
        return UNKNOWN;
    }
}
