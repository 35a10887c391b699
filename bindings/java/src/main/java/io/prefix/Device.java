package io.prefix;

/**
 * What an engine could run on.
 *
 * @param kind "cpu"
 * @param level instruction-set level, "avx512_bf16"
 * @param available engines can run on it
 * @param chosen option isa = auto takes this one
 * @param reason why it is not available; "" when it is
 * @param threads cores this process may use
 * @param totalBytes memory of the device
 * @param freeBytes of it now
 */
public record Device(
        String kind,
        String level,
        boolean available,
        boolean chosen,
        String reason,
        int threads,
        long totalBytes,
        long freeBytes) {}
