package io.prefix.internal;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/** The memory of a struct that C fills; {@link Layout} says where its fields are. */
public final class Struct {
    private static final VarHandle INT =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.nativeOrder());
    private static final VarHandle LONG =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.nativeOrder());

    public final byte[] bytes;

    public Struct(int size) {
        bytes = new byte[size];
    }

    public int getInt(int offset) {
        return (int) INT.get(bytes, offset);
    }

    public long getLong(int offset) {
        return (long) LONG.get(bytes, offset);
    }

    public float getFloat(int offset) {
        return Float.intBitsToFloat(getInt(offset));
    }

    public double getDouble(int offset) {
        return Double.longBitsToDouble(getLong(offset));
    }

    /** A static text of the library. */
    public String getText(int offset) {
        return new String(text(getLong(offset)), StandardCharsets.UTF_8);
    }

    // In libprefix_java.so, which Native loads; only Native fills structs.
    private static native byte[] text(long address);
}
