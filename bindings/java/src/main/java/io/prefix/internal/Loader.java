package io.prefix.internal;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Loads libprefix_java.so, and before it the libraries it needs where they lie beside it. The first of these that
 * has it wins: the folders of the property prefix.native.path, those of java.library.path, the jar of natives. The
 * latter is extracted into a folder below the property prefix.native.extract (default: java.io.tmpdir), which is
 * removed again as soon as the libraries are loaded.
 */
final class Loader {
    /** In the order of loading. */
    private static final List<String> LIBRARIES = List.of("libprefix.so.1", "libprefix_text.so.1", "libprefix_java.so");

    private static final String MAIN = LIBRARIES.get(2);

    private final List<String> tried = new ArrayList<>();

    static void load() {
        new Loader().loadFirst();
        check("libprefix", NativeJNI.prefix_abi_version(), Constants.PREFIX_ABI_VERSION);
        check("libprefix_text", NativeJNI.prefix_text_abi_version(), Constants.PREFIX_TEXT_ABI_VERSION);
    }

    private static void check(String library, int has, int needs) {
        if (has < needs) {
            throw new UnsatisfiedLinkError(
                    "the loaded " + library + " has ABI version " + has + ", and " + needs + " is needed");
        }
    }

    private void loadFirst() {
        if (!fromProperty("prefix.native.path") && !fromProperty("java.library.path") && !fromJar()) {
            throw new UnsatisfiedLinkError("cannot load " + MAIN + "; tried\n  " + String.join("\n  ", tried));
        }
    }

    private boolean fromProperty(String property) {
        String folders = System.getProperty(property, "");
        if (folders.isEmpty()) {
            tried.add("-D" + property + ": not set");
            return false;
        }
        for (String folder : folders.split(java.io.File.pathSeparator)) {
            if (!folder.isEmpty() && fromFolder("-D" + property, Path.of(folder).toAbsolutePath())) {
                return true;
            }
        }
        return false;
    }

    private boolean fromFolder(String origin, Path folder) {
        if (!Files.exists(folder.resolve(MAIN))) {
            tried.add(origin + ": " + folder.resolve(MAIN) + ": no such file");
            return false;
        }
        for (String name : LIBRARIES) {
            Path file = folder.resolve(name);
            // The first two may also lie where the system looks.
            if (Files.exists(file)) {
                try {
                    System.load(file.toString());
                } catch (UnsatisfiedLinkError e) {
                    tried.add(origin + ": " + file + ": " + e.getMessage());
                    return false;
                }
            }
        }
        return true;
    }

    private boolean fromJar() {
        String resources = "/io/prefix/native/" + platform() + "/";
        if (Loader.class.getResource(resources + MAIN) == null) {
            tried.add("jar: " + resources + MAIN + ": no such resource");
            return false;
        }
        String parent = System.getProperty("prefix.native.extract", System.getProperty("java.io.tmpdir"));
        Path folder = null;
        try {
            folder = Files.createTempDirectory(Path.of(parent), "prefix-native-");
            for (String name : LIBRARIES) {
                try (InputStream in = Loader.class.getResourceAsStream(resources + name)) {
                    if (in != null) {
                        Files.copy(in, folder.resolve(name), StandardCopyOption.REPLACE_EXISTING);
                    }
                }
            }
            return fromFolder("jar (set -Dprefix.native.extract when this folder forbids programs)", folder);
        } catch (IOException e) {
            tried.add("jar: extracting into " + parent + " (-Dprefix.native.extract): " + e);
            return false;
        } finally {
            remove(folder);
        }
    }

    /** A library that is loaded needs its file no longer. */
    private static void remove(Path folder) {
        if (folder == null) {
            return;
        }
        try {
            for (String name : LIBRARIES) {
                Files.deleteIfExists(folder.resolve(name));
            }
            Files.deleteIfExists(folder);
        } catch (IOException e) {
            folder.toFile().deleteOnExit();
        }
    }

    private static String platform() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT).replace(' ', '-');
        String machine = System.getProperty("os.arch");
        return system + "-" + (machine.equals("amd64") ? "x86_64" : machine);
    }

    private Loader() {}
}
