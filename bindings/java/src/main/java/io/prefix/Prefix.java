package io.prefix;

import static io.prefix.Buffers.utf8;

import io.prefix.internal.Constants;
import io.prefix.internal.Layout;
import io.prefix.internal.Native;
import io.prefix.internal.Struct;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;

/** What there is without an engine: versions, options, devices, recipes, messages. */
public final class Prefix {
    /**
     * The version of the loaded libprefix.
     *
     * @return "major.minor.patch"
     */
    public static String version() {
        return Native.prefix_version_string();
    }

    /**
     * The version of the loaded libprefix_text.
     *
     * @return "major.minor.patch"
     */
    public static String textVersion() {
        return Native.prefix_text_version_string();
    }

    /**
     * The version of the C interface that the loaded library has.
     *
     * @return the number
     */
    public static int abiVersion() {
        return Native.prefix_abi_version();
    }

    /**
     * What a bug report should say.
     *
     * @return one line
     */
    public static String buildInfo() {
        return Native.prefix_build_info();
    }

    /**
     * What the library was built with and this machine can run.
     *
     * @return names
     */
    public static List<String> features() {
        List<String> names = new ArrayList<>();
        for (long i = 0; i < Native.prefix_feature_count(); i++) {
            names.add(Native.prefix_feature_name(i));
        }
        return Collections.unmodifiableList(names);
    }

    /**
     * Says whether a name is among {@link #features()}.
     *
     * @param name the name
     * @return true if it is
     */
    public static boolean hasFeature(String name) {
        return Native.prefix_has_feature(utf8(name)) != 0;
    }

    /**
     * What engines can run on.
     *
     * @return the processor, then the GPUs in the order of option device = cuda:0, cuda:1, ...
     */
    public static List<Device> devices() {
        List<Device> devices = new ArrayList<>();
        for (long i = 0; i < Native.prefix_device_count(); i++) {
            Struct raw = new Struct(Layout.DEVICE_DETAILS_SIZE);
            Native.prefix_device_info(i, raw.bytes);
            devices.add(new Device(
                    raw.getText(Layout.DEVICE_DETAILS_KIND),
                    raw.getText(Layout.DEVICE_DETAILS_NAME),
                    raw.getText(Layout.DEVICE_DETAILS_LEVEL),
                    raw.getInt(Layout.DEVICE_DETAILS_AVAILABLE) != 0,
                    raw.getInt(Layout.DEVICE_DETAILS_CHOSEN) != 0,
                    raw.getText(Layout.DEVICE_DETAILS_REASON),
                    raw.getInt(Layout.DEVICE_DETAILS_THREADS),
                    raw.getLong(Layout.DEVICE_DETAILS_TOTAL_BYTES),
                    raw.getLong(Layout.DEVICE_DETAILS_FREE_BYTES)));
        }
        return Collections.unmodifiableList(devices);
    }

    /**
     * Every option of the library.
     *
     * @return the options of engines and of requests
     */
    public static List<OptionInfo> optionInfos() {
        List<OptionInfo> infos = new ArrayList<>();
        for (long i = 0; i < Native.prefix_option_count(); i++) {
            Struct raw = new Struct(Layout.OPTION_DETAILS_SIZE);
            Native.prefix_option_info(i, raw.bytes);
            String values = raw.getText(Layout.OPTION_DETAILS_VALUES);
            infos.add(new OptionInfo(
                    raw.getText(Layout.OPTION_DETAILS_KEY),
                    Buffers.pick(OptionInfo.Type.values(), raw.getInt(Layout.OPTION_DETAILS_TYPE)),
                    Buffers.pick(OptionInfo.Scope.values(), raw.getInt(Layout.OPTION_DETAILS_SCOPE)),
                    raw.getDouble(Layout.OPTION_DETAILS_MINIMUM),
                    raw.getDouble(Layout.OPTION_DETAILS_MAXIMUM),
                    raw.getText(Layout.OPTION_DETAILS_DEFAULT_VALUE),
                    values.isEmpty() ? List.of() : List.of(values.split("\\|")),
                    raw.getText(Layout.OPTION_DETAILS_DOC)));
        }
        return Collections.unmodifiableList(infos);
    }

    /**
     * The shipped recipes: how a task becomes prompts.
     *
     * @return names
     */
    public static List<String> recipes() {
        List<String> names = new ArrayList<>();
        for (long i = 0; i < Native.prefix_recipe_count(); i++) {
            names.add(Native.prefix_recipe_name(i));
        }
        return Collections.unmodifiableList(names);
    }

    /**
     * The file of a shipped recipe, to start from.
     *
     * @param name the name
     * @return JSON
     */
    public static String recipeJson(String name) {
        return Buffers.text(2048, buffer -> Native.prefix_recipe_json(utf8(name), buffer));
    }

    /**
     * A message of the library.
     *
     * @param level how important it is
     * @param text what it says
     */
    public record Message(System.Logger.Level level, String text) {}

    /**
     * Drops messages of the library below a level. The default is WARNING.
     *
     * @param level the level
     */
    public static void setLogLevel(System.Logger.Level level) {
        Native.prefix_set_log_level(
                switch (level) {
                    case ALL, TRACE, DEBUG -> Constants.PREFIX_LOG_DEBUG;
                    case INFO -> Constants.PREFIX_LOG_INFO;
                    case WARNING -> Constants.PREFIX_LOG_WARNING;
                    case ERROR -> Constants.PREFIX_LOG_ERROR;
                    case OFF -> Constants.PREFIX_LOG_OFF;
                });
    }

    /**
     * Takes the oldest message that the library keeps (the last 1,024).
     *
     * @return the message, empty when there is none
     */
    public static Optional<Message> nextLog() {
        long[] level = new long[1];
        boolean[] none = {false};
        String text = Buffers.text(1024, buffer -> {
            long needed = Native.prefix_log_next(level, buffer);
            none[0] = needed < 0;
            return Math.max(0, needed);
        });
        if (none[0]) {
            return Optional.empty();
        }
        System.Logger.Level importance =
                switch ((int) level[0]) {
                    case Constants.PREFIX_LOG_DEBUG -> System.Logger.Level.DEBUG;
                    case Constants.PREFIX_LOG_INFO -> System.Logger.Level.INFO;
                    case Constants.PREFIX_LOG_WARNING -> System.Logger.Level.WARNING;
                    default -> System.Logger.Level.ERROR;
                };
        return Optional.of(new Message(importance, text));
    }

    /**
     * Hands the messages of the library to a logger, from a daemon thread, until it is closed.
     *
     * @param logger for instance {@code System.getLogger("io.prefix")}
     * @return close it to stop; what came before is handed over first
     */
    public static LogForwarder forwardLog(System.Logger logger) {
        return new LogForwarder(logger);
    }

    private Prefix() {}
}
