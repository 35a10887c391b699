package io.prefix;

/**
 * What an engine could run on.
 *
 * @param kind "cpu" or "cuda"
 * @param name as its maker calls it; "" when that is not known
 * @param level instruction-set level that option isa = auto takes, "amx"; "sm_90"
 * @param available engines can run on it
 * @param chosen they do unless option device names another
 * @param reason why it is not available; "" when it is
 * @param threads cores this process may use; multiprocessors of a GPU
 * @param totalBytes memory of the device
 * @param freeBytes of it now; 0 of a GPU
 */
public record Device(
        String kind,
        String name,
        String level,
        boolean available,
        boolean chosen,
        String reason,
        int threads,
        long totalBytes,
        long freeBytes) {}
