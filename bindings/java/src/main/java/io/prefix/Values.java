package io.prefix;

import java.nio.FloatBuffer;
import java.util.Arrays;

/** The numbers of all requests of a job, in one array. */
public final class Values {
    private final float[] flat;
    private final long[] offsets;

    Values(float[] flat, long[] offsets) {
        this.flat = flat;
        this.offsets = offsets;
    }

    /**
     * Counts the requests.
     *
     * @return how many the job had
     */
    public int size() {
        return offsets.length - 1;
    }

    /**
     * Counts the numbers of a request.
     *
     * @param request number in the batch
     * @return how many, also when it failed; they are NaN then
     */
    public int count(int request) {
        return (int) (offsets[request + 1] - offsets[request]);
    }

    /**
     * One number.
     *
     * @param request number in the batch
     * @param index from 0 to {@link #count} - 1
     * @return the number
     */
    public float get(int request, int index) {
        if (index < 0 || index >= count(request)) {
            throw new IndexOutOfBoundsException(
                    "request " + request + " has " + count(request) + " values, and no " + index);
        }
        return flat[(int) offsets[request] + index];
    }

    /**
     * The numbers of a request.
     *
     * @param request number in the batch
     * @return a copy
     */
    public float[] of(int request) {
        return Arrays.copyOfRange(flat, (int) offsets[request], (int) offsets[request + 1]);
    }

    /**
     * The numbers of a request without a copy.
     *
     * @param request number in the batch
     * @return a view that cannot be written
     */
    public FloatBuffer view(int request) {
        return FloatBuffer.wrap(flat, (int) offsets[request], count(request)).slice().asReadOnlyBuffer();
    }

    /**
     * All numbers, request after request.
     *
     * @return the array itself
     */
    public float[] flat() {
        return flat;
    }
}
