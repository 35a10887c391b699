package io.prefix;

/**
 * All blocks that are in memory; see {@link Cache#dump}.
 *
 * @param jsonLines a line of JSON for each block, parents first, and a last line with the sequence number;
 *     prefix_cache_dump_events in prefix.h describes the fields
 * @param next the sequence number from which events go on, for {@link Cache#events}
 */
public record CacheDump(String jsonLines, long next) {}
