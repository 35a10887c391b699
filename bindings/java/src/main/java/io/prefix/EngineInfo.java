package io.prefix;

import io.prefix.internal.Layout;
import io.prefix.internal.Struct;

/**
 * What is often asked of {@link Engine#infoJson()}.
 *
 * @param layers of the model
 * @param hidden length of an embedding
 * @param heads of attention
 * @param kvHeads of keys and values
 * @param headDim length of a head
 * @param vocabulary token ids are smaller
 * @param maxPositions longest sequence in tokens, as it is in force
 * @param threads as it is in force; of the pool, if it was given one
 * @param pageTokens of a page of keys and values
 * @param weightBytes of the model
 * @param kvBytesPerToken in the cache
 * @param recurrentLayers 0: there are none
 * @param stateBytes that a state of them takes of the cache
 * @param labels values of a request with option head; 0: the model has no such head
 */
public record EngineInfo(
        int layers,
        int hidden,
        int heads,
        int kvHeads,
        int headDim,
        int vocabulary,
        int maxPositions,
        int threads,
        int pageTokens,
        long weightBytes,
        long kvBytesPerToken,
        long recurrentLayers,
        long stateBytes,
        int labels) {
    static EngineInfo of(Struct raw) {
        return new EngineInfo(
                raw.getInt(Layout.ENGINE_INFO_LAYERS),
                raw.getInt(Layout.ENGINE_INFO_HIDDEN),
                raw.getInt(Layout.ENGINE_INFO_HEADS),
                raw.getInt(Layout.ENGINE_INFO_KV_HEADS),
                raw.getInt(Layout.ENGINE_INFO_HEAD_DIM),
                raw.getInt(Layout.ENGINE_INFO_VOCABULARY),
                raw.getInt(Layout.ENGINE_INFO_MAX_POSITIONS),
                raw.getInt(Layout.ENGINE_INFO_THREADS),
                raw.getInt(Layout.ENGINE_INFO_PAGE_TOKENS),
                raw.getLong(Layout.ENGINE_INFO_WEIGHT_BYTES),
                raw.getLong(Layout.ENGINE_INFO_KV_BYTES_PER_TOKEN),
                raw.getLong(Layout.ENGINE_INFO_RECURRENT_LAYERS),
                raw.getLong(Layout.ENGINE_INFO_STATE_BYTES),
                (int) raw.getLong(Layout.ENGINE_INFO_LABELS));
    }
}
