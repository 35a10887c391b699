package io.prefix;

import io.prefix.internal.Layout;
import io.prefix.internal.Struct;

/**
 * What was saved or loaded.
 *
 * @param namespaces with something in them
 * @param nodes of the tree
 * @param tokens all
 * @param states of recurrent layers
 * @param bytes saved: of the file
 * @param skippedTokens loaded: for which there was no room, or that were damaged
 */
public record SnapshotInfo(long namespaces, long nodes, long tokens, long states, long bytes, long skippedTokens) {
    static SnapshotInfo of(Struct raw) {
        return new SnapshotInfo(
                raw.getLong(Layout.SNAPSHOT_INFO_NAMESPACES),
                raw.getLong(Layout.SNAPSHOT_INFO_NODES),
                raw.getLong(Layout.SNAPSHOT_INFO_TOKENS),
                raw.getLong(Layout.SNAPSHOT_INFO_STATES),
                raw.getLong(Layout.SNAPSHOT_INFO_BYTES),
                raw.getLong(Layout.SNAPSHOT_INFO_SKIPPED_TOKENS));
    }
}
