//! What others see of the program before it can answer.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::json;

use crate::client::{request, Connection};
use crate::program::{command, end, ended, signal, Program};

/// Whether the program would catch SIGTERM: it has come to its model then.
fn catches_term(program: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap_or("0").trim(), 16).unwrap();
    caught >> (15 - 1) & 1 == 1
}

/// What `look` finds while the program, which stands still, has not opened its model yet, and what it says
/// when it is ended there. Where it was faster it is started again.
fn while_it_opens<T>(arguments: &[&str], look: impl Fn() -> T) -> (T, ExitStatus, String) {
    for _ in 0..200 {
        let mut program = command(&[], arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while !catches_term(&program) {
            assert!(program.try_wait().unwrap().is_none(), "it has ended");
            std::thread::yield_now();
        }
        signal(&program, "STOP");
        let found = look();
        signal(&program, "TERM");
        signal(&program, "CONT");
        let (status, said) = ended(program);
        if said.contains("stopped before the model was there") {
            return (found, status, said);
        }
    }
    panic!("it was faster 200 times");
}

/// Whoever probes a port, as a balancer does, takes a connection for an answer.
#[test]
fn nobody_connects_while_the_model_is_loaded() {
    // An address of its own, so that no other test takes the port in between.
    let free = TcpListener::bind("127.0.0.9:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let (connected, _, said) = while_it_opens(&["--listen", &address.to_string()], || {
        TcpStream::connect(address)
    });
    assert!(connected.is_err(), "{said}");
}

#[test]
fn a_signal_ends_it_while_it_opens_the_model() {
    let ((), status, said) = while_it_opens(&[], || ());
    assert!(status.success(), "{status}: {said}");
}

#[test]
fn a_port_that_is_taken_is_said() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let (status, said) = end(command(&[], &["--listen", &address]));
    assert!(
        status.code() == Some(1) && said.contains(&address),
        "{status}: {said}"
    );
}

#[test]
fn an_argument_that_is_no_text_is_said() {
    let mut program = command(&[], &["--name"]);
    program.arg(OsStr::from_bytes(b"a\xff"));
    let (status, said) = end(program);
    assert!(
        status.code() == Some(2) && said.contains(r#""a\xFF" is not UTF-8"#),
        "{status}: {said}"
    );
}

/// A stream that runs, and how the program was told to stop by `signals` in the meantime.
fn stop_in_a_stream(
    tokens: usize,
    signals: impl FnOnce(&mut Program),
) -> (ExitStatus, String, String) {
    let asked = json!({"prompt": "A", "max_tokens": tokens, "ignore_eos": true, "stream": true});
    let bytes = request("POST", "/v1/completions", &[], asked.to_string().as_bytes());
    let mut program = command(&[], &["--option", "cache_bytes=96M"]);
    let mut program = program.stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = program.stderr.take().unwrap();
    let mut program = Program::of(program);
    let mut running = Connection::open(program.address).unwrap();
    running.send(&bytes).unwrap();
    let (code, head) = running.head().unwrap();
    assert_eq!(code, 200);
    signals(&mut program);
    let body = running.body(&head).unwrap_or_default();
    let status = program.wait();
    let mut said = String::new();
    errors.read_to_string(&mut said).unwrap();
    (status, said, String::from_utf8(body).unwrap())
}

/// As a second Ctrl-C does in other programs.
#[test]
fn a_second_signal_ends_it_at_once() {
    for (first, second, number) in [("TERM", "INT", 2), ("INT", "TERM", 15)] {
        let (status, said, _) = stop_in_a_stream(1500, |program| {
            program.signal(first);
            while !program.has_ended() {
                program.signal(second);
            }
        });
        assert_eq!(status.code(), Some(128 + number), "{status}: {said}");
        assert!(
            said.contains(&format!("ended by signal {number}")),
            "{said}"
        );
    }
}

/// `timeout` sends one to the program, and one to its group.
#[test]
fn a_signal_that_comes_twice_is_one() {
    let (status, said, body) = stop_in_a_stream(50, |program| {
        let twice = format!("kill -TERM {0}; kill -INT {0}", program.id());
        let done = Command::new("sh").args(["-c", &twice]).status();
        assert!(done.unwrap().success());
    });
    assert!(status.success(), "{status}: {said}");
    assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
}
