package io.prefix;

/** Loads the library in a JVM of its own; see LoaderTest. */
final class LoaderProbe {
    public static void main(String[] arguments) throws Exception {
        try {
            System.out.println("loaded " + Prefix.version() + " " + Prefix.textVersion());
        } catch (LinkageError e) {
            Throwable cause = e.getCause() == null ? e : e.getCause();
            System.out.println(cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
    }

    private LoaderProbe() {}
}
