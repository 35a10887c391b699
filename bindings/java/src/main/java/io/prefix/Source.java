package io.prefix;

import static io.prefix.Buffers.utf8;

import io.prefix.internal.Native;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * The files of a model in memory: those of a Hugging Face directory by their names, or one with a name that ends with
 * ".gguf". Nothing is copied, so that the bytes may not change until all engines from it are open. What {@link
 * java.nio.channels.FileChannel#map} gives will do, too.
 */
public final class Source extends Owned {
    private final List<ByteBuffer> kept = new ArrayList<>();

    /** One without files. */
    public Source() {
        super(Native.prefix_source_create(), "source", Native::prefix_source_release);
    }

    /**
     * Adds a file.
     *
     * @param name as in the model's directory
     * @param bytes of a direct buffer, from its position to its limit; of up to 2 GiB, so a larger model is one in shards
     * @return this
     * @throws IllegalArgumentException when the buffer is not direct
     * @throws PrefixException INVALID_ARGUMENT for a name that is there already, or that leads out of the directory
     */
    public synchronized Source add(String name, ByteBuffer bytes) {
        if (!bytes.isDirect()) {
            throw new IllegalArgumentException("the buffer of " + name + " is not direct, so it may be moved");
        }
        ByteBuffer part = bytes.slice();
        call(raw -> Native.prefix_source_add_buffer(raw, utf8(name), part));
        kept.add(part);
        return this;
    }

    /** What must stay in memory while it is loaded. */
    synchronized List<ByteBuffer> kept() {
        return List.copyOf(kept);
    }
}
