package io.prefix;

import static io.prefix.Buffers.utf8;

import io.prefix.internal.Native;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * Settings of an engine, of requests or of tasks, by methods or by name: {@code new Options().threads(2)} is {@code
 * Options.of("threads", 2)}. {@link Prefix#optionInfos()} lists them all. Values are checked when they are set. Options may be used any number of times; they need not be closed.
 */
public final class Options extends OptionMethods {
    /** Options that take several texts, as stop: one text alone is a list of one, whatever it looks like. */
    private static final class Lists {
        static final Set<String> OF_TEXTS = Prefix.optionInfos().stream()
                .filter(info -> info.type() == OptionInfo.Type.STRING_LIST)
                .map(OptionInfo::key)
                .collect(Collectors.toUnmodifiableSet());
    }

    /** Options with all defaults. */
    public Options() {
        super(Native.prefix_options_create(), Native::prefix_options_release);
    }

    /**
     * Options with one setting.
     *
     * @param key the name
     * @param value see {@link #set}
     * @return the options, for more settings
     */
    public static Options of(String key, Object value) {
        return new Options().set(key, value);
    }

    /**
     * Options from a map.
     *
     * @param settings names and values, see {@link #set}
     * @return the options
     */
    public static Options of(Map<String, ?> settings) {
        Options options = new Options();
        settings.forEach(options::set);
        return options;
    }

    /**
     * Sets an option.
     *
     * @param key the name
     * @param value a number, a boolean, a text (sizes such as "2G" too), or an array or Iterable of integers or texts; of
     *     an option that takes several texts, one is enough
     * @return this
     * @throws PrefixException UNKNOWN_OPTION may name one like it; INVALID_ARGUMENT, OUT_OF_RANGE
     */
    @Override
    public synchronized Options set(String key, Object value) {
        byte[] name = utf8(key);
        Objects.requireNonNull(value, () -> "option " + key + " is null");
        if (value instanceof Integer || value instanceof Long || value instanceof Short || value instanceof Byte) {
            call(raw -> Native.prefix_options_set_int(raw, name, ((Number) value).longValue()));
        } else if (value instanceof Number number) {
            call(raw -> Native.prefix_options_set_double(raw, name, number.doubleValue()));
        } else if (value instanceof Iterable || value.getClass().isArray()) {
            setJson(Json.of(Map.of(key, value)));
        } else if (value instanceof CharSequence && Lists.OF_TEXTS.contains(key)) {
            setJson(Json.of(Map.of(key, List.of(value))));
        } else {
            byte[] text = utf8(value.toString());
            call(raw -> Native.prefix_options_set(raw, name, text));
        }
        return this;
    }

    /**
     * Sets options from JSON, all or none.
     *
     * @param json {"key": value, ...}
     * @return this
     */
    public synchronized Options setJson(String json) {
        call(raw -> Native.prefix_options_set_json(raw, utf8(json)));
        return this;
    }

    /**
     * Has engines that are opened with these options share the threads of a pool. Not beside the options threads and
     * cpus.
     *
     * @param pool null takes it away
     * @return this
     */
    public synchronized Options setPool(Pool pool) {
        if (pool == null) {
            call(raw -> Native.prefix_options_set_pool(raw, 0));
        } else {
            call(raw -> pool.call(threads -> Native.prefix_options_set_pool(raw, threads)));
        }
        return this;
    }

    /** As the library takes them: 464:-100.0,11:2.5. */
    static String biases(Map<Integer, ? extends Number> value) {
        return value.entrySet().stream()
                .map(bias -> bias.getKey() + ":" + bias.getValue().doubleValue())
                .collect(Collectors.joining(","));
    }

    /** Of a limit: 0 stands for none, so a time below a millisecond is 1. A negative one is -1, which is refused. */
    static long millis(Duration time) {
        return time.isZero() ? 0 : time.isNegative() ? -1 : Math.max(1, Job.millis(time));
    }

    /**
     * Reads an option.
     *
     * @param key the name
     * @return the value in force as text, the default when it was never set
     */
    public synchronized String get(String key) {
        return Buffers.text(64, buffer -> call(raw -> Native.prefix_options_get(raw, utf8(key), buffer)));
    }

    /**
     * What was set.
     *
     * @return as {@link #setJson} takes it
     */
    public synchronized String json() {
        return Buffers.text(256, buffer -> call(raw -> Native.prefix_options_json(raw, buffer)));
    }
}
