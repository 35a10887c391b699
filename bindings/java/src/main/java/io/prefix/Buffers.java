package io.prefix;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.prefix.internal.Constants;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.ToLongFunction;

/** Arrays for functions that write all or nothing and say how much there is. */
final class Buffers {
    static final byte[] NOTHING = {};

    /** The bytes of a text. One with half a character has none: getBytes has "?" for it, which makes one text of two. */
    static byte[] utf8(String text) {
        int half = half(text);
        if (half >= 0) {
            throw PrefixException.of(
                    Constants.PREFIX_ERR_INVALID_UTF8,
                    "",
                    String.format(
                            "a text cannot be UTF-8: U+%04X at %d of %d is half of a surrogate pair",
                            (int) text.charAt(half), half, text.length()));
        }
        return text.getBytes(UTF_8);
    }

    /** One text of many: the library says which has half a character, which is a byte here that UTF-8 does not have. */
    private static byte[] oneOfMany(List<String> texts, int number) {
        String text = Objects.requireNonNull(texts.get(number), () -> "text " + number + " is null");
        int half = half(text);
        if (half < 0) {
            return text.getBytes(UTF_8);
        }
        byte[] begin = text.substring(0, half).getBytes(UTF_8);
        byte[] bad = Arrays.copyOf(begin, begin.length + 1);
        bad[begin.length] = (byte) 0xff;
        return bad;
    }

    /** Where a surrogate is without the other one of its pair; -1: nowhere. */
    private static int half(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (Character.isSurrogate(text.charAt(i))) {
                if (i + 1 == text.length() || !Character.isSurrogatePair(text.charAt(i), text.charAt(i + 1))) {
                    return i;
                }
                i++;
            }
        }
        return -1;
    }

    static String text(int guess, ToLongFunction<byte[]> get) {
        byte[] array = new byte[guess];
        for (;;) {
            long needed = get.applyAsLong(array);
            if (needed < array.length) { // there is a zero behind it
                return new String(array, 0, (int) needed, UTF_8);
            }
            // Texts such as counters change their length between two calls.
            array = new byte[room(needed + needed / 8 + 1)];
        }
    }

    static byte[] bytes(int guess, ToLongFunction<byte[]> get) {
        byte[] array = new byte[guess];
        for (;;) {
            long needed = get.applyAsLong(array);
            if (needed < array.length) {
                return Arrays.copyOf(array, (int) needed);
            }
            array = new byte[room(needed + 1)];
        }
    }

    static int[] ints(int guess, ToLongFunction<int[]> get) {
        int[] array = new int[guess];
        for (;;) {
            long needed = get.applyAsLong(array);
            if (needed <= array.length) {
                return needed == array.length ? array : Arrays.copyOf(array, (int) needed);
            }
            array = new int[room(needed)];
        }
    }

    static long[] longs(int guess, ToLongFunction<long[]> get) {
        long[] array = new long[guess];
        for (;;) {
            long needed = get.applyAsLong(array);
            if (needed <= array.length) {
                return needed == array.length ? array : Arrays.copyOf(array, (int) needed);
            }
            array = new long[room(needed)];
        }
    }

    static float[] floats(int guess, ToLongFunction<float[]> get) {
        float[] array = new float[guess];
        for (;;) {
            long needed = get.applyAsLong(array);
            if (needed <= array.length) {
                return needed == array.length ? array : Arrays.copyOf(array, (int) needed);
            }
            array = new float[room(needed)];
        }
    }

    /** The constant of a number that C counts from 0; the last one, UNKNOWN, for those of a newer library. */
    static <E> E pick(E[] constants, int number) {
        return constants[number >= 0 && number < constants.length - 1 ? number : constants.length - 1];
    }

    static int room(long needed) {
        if (needed > Integer.MAX_VALUE - 8) {
            throw new OutOfMemoryError(needed + " elements do not fit an array");
        }
        return (int) needed;
    }

    /** Tokens as the native code takes them: direct memory as it is, all else copied. */
    static Object tokens(IntBuffer buffer) {
        if (buffer.isDirect() && buffer.order() == ByteOrder.nativeOrder()) {
            return buffer.slice();
        }
        int[] copy = new int[buffer.remaining()];
        buffer.duplicate().get(copy);
        return copy;
    }

    /** Texts in one array; text i is from offsets[i] to offsets[i + 1]. */
    static final class Joined {
        final byte[] bytes;
        final long[] offsets;

        Joined(List<String> texts) {
            byte[][] parts = new byte[texts.size()][];
            offsets = new long[parts.length + 1];
            for (int i = 0; i < parts.length; i++) {
                parts[i] = oneOfMany(texts, i);
                offsets[i + 1] = offsets[i] + parts[i].length;
            }
            bytes = new byte[room(offsets[parts.length])];
            for (int i = 0; i < parts.length; i++) {
                System.arraycopy(parts[i], 0, bytes, (int) offsets[i], parts[i].length);
            }
        }
    }

    /** Texts behind a table of where each begins and the last one ends, as bindings/swig/prefix.i draws it. */
    static byte[] pack(List<String> texts) {
        byte[][] parts = new byte[texts.size()][];
        long size = 8L * (parts.length + 1);
        for (int i = 0; i < parts.length; i++) {
            parts[i] = oneOfMany(texts, i);
            size += parts[i].length;
        }
        ByteBuffer packed = ByteBuffer.allocate(room(size)).order(ByteOrder.nativeOrder());
        int end = 8 * (parts.length + 1);
        packed.putLong(end);
        for (byte[] part : parts) {
            packed.putLong(end += part.length);
        }
        for (byte[] part : parts) {
            packed.put(part);
        }
        return packed.array();
    }

    /** Lists of tokens in one array. */
    static final class Lists {
        final int[] flat;
        final long[] offsets;

        Lists(int[][] lists) {
            offsets = new long[lists.length + 1];
            for (int i = 0; i < lists.length; i++) {
                offsets[i + 1] = offsets[i] + lists[i].length;
            }
            flat = new int[room(offsets[lists.length])];
            for (int i = 0; i < lists.length; i++) {
                System.arraycopy(lists[i], 0, flat, (int) offsets[i], lists[i].length);
            }
        }
    }

    private Buffers() {}
}
