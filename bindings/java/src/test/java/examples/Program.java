package examples;

import io.prefix.PrefixException;

/** How the programs begin and end: code 1 when something failed, 2 for wrong arguments, and a sentence that says why. */
final class Program {
    interface Body {
        void run(String[] arguments) throws InterruptedException;
    }

    static void run(String[] arguments, int count, String usage, Body body) {
        if (arguments.length != count) {
            System.err.println(usage);
            System.exit(2);
        }
        try {
            body.run(arguments);
        } catch (PrefixException | UnsatisfiedLinkError e) {
            System.err.println(e.getMessage());
            System.exit(1);
        } catch (InterruptedException e) {
            System.err.println("interrupted");
            System.exit(1);
        }
    }

    private Program() {}
}
