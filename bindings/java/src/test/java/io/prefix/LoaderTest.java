package io.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where the native library is looked for, in JVMs of their own. */
class LoaderTest {
    private static final Path NATIVES = Path.of(System.getProperty("prefix.natives")).toAbsolutePath().normalize();
    private static final Path FOLDER = Path.of(System.getProperty("prefix.native.path")).toAbsolutePath().normalize();

    @TempDir Path temporary;

    private String probe(List<String> classPath, String... settings) throws Exception {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(List.of(settings));
        List<String> path = new ArrayList<>(classPath);
        for (Class<?> type : List.of(Prefix.class, LoaderProbe.class)) {
            path.add(Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI()).toString());
        }
        command.addAll(List.of("-cp", String.join(File.pathSeparator, path), LoaderProbe.class.getName()));
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        String output = new String(process.getInputStream().readAllBytes()).strip();
        assertEquals(0, process.waitFor(), output);
        return output;
    }

    private static final String LOADED = "loaded " + Prefix.version() + " " + Prefix.textVersion();

    @Test
    void thePropertyComesFirst() throws Exception {
        String folders = temporary + File.pathSeparator + FOLDER;
        assertEquals(LOADED, probe(List.of(), "-Dprefix.native.path=" + folders, "-Djava.library.path=/nowhere"));
    }

    @Test
    void thenTheLibraryPath() throws Exception {
        assertEquals(LOADED, probe(List.of(), "-Djava.library.path=/nowhere" + File.pathSeparator + FOLDER));
    }

    @Test
    void thenTheJarWhichLeavesNothingBehind() throws Exception {
        assertEquals(
                LOADED,
                probe(List.of(NATIVES.toString()), "-Djava.library.path=/nowhere", "-Dprefix.native.extract=" + temporary));
        try (Stream<Path> left = Files.list(temporary)) {
            assertEquals(List.of(), left.toList());
        }
    }

    @Test
    void aFailureNamesEveryPlace() throws Exception {
        Path broken = Files.createDirectory(temporary.resolve("broken"));
        Files.writeString(broken.resolve("libprefix_java.so"), "no library");
        String output =
                probe(List.of(), "-Dprefix.native.path=/first:" + broken, "-Djava.library.path=/third:/fourth");
        assertTrue(output.startsWith("UnsatisfiedLinkError: cannot load libprefix_java.so; tried"), output);
        List<String> lines = output.lines().skip(1).map(String::strip).toList();
        assertEquals(5, lines.size(), output);
        assertEquals("-Dprefix.native.path: /first/libprefix_java.so: no such file", lines.get(0));
        assertTrue(lines.get(1).contains(broken + "/libprefix_java.so") && lines.get(1).contains("file too short"), output);
        assertEquals("-Djava.library.path: /third/libprefix_java.so: no such file", lines.get(2));
        assertEquals("-Djava.library.path: /fourth/libprefix_java.so: no such file", lines.get(3));
        assertTrue(lines.get(4).startsWith("jar: /io/prefix/native/"), output);
    }

    @Test
    void aFolderThatCannotBeWrittenIsNamed() throws Exception {
        String output = probe(List.of(NATIVES.toString()), "-Djava.library.path=", "-Dprefix.native.extract=/nowhere");
        assertTrue(output.contains("extracting into /nowhere"), output);
    }

    /** A library of an older ABI is named as such before anything of it is used. */
    @Test
    void aLibraryThatIsTooOldIsNamed() throws Exception {
        Path source = temporary.resolve("old.c");
        Files.writeString(source, "int prefix_abi_version(void) { return 0; }\n");
        Path versions = temporary.resolve("old.map");
        Files.writeString(versions, "PREFIX_1 { global: *; };\n");
        Files.copy(FOLDER.resolve("libprefix_java.so"), temporary.resolve("libprefix_java.so"));
        Files.copy(FOLDER.resolve("libprefix_text.so.1"), temporary.resolve("libprefix_text.so.1"));
        Process cc = new ProcessBuilder(
                        "cc", "-shared", "-fPIC", "-Wl,-soname,libprefix.so.1",
                        "-Wl,--version-script=" + versions, "-o", temporary.resolve("libprefix.so.1").toString(), source.toString())
                .inheritIO()
                .start();
        assertEquals(0, cc.waitFor());
        String output = probe(List.of(), "-Dprefix.native.path=" + temporary);
        assertTrue(output.endsWith("the loaded libprefix has ABI version 0, and 1 is needed"), output);
        assertFalse(output.contains("loaded 0"), output);
    }
}
