//! What others see of the program before it can answer.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::json;

use crate::client::{request, Connection};
use crate::program::{command, end, ended, signal, Program};

/// The program with a pipe for a model, which it has begun to read and finds nothing in.
fn start_with_pipe(command: &mut Command, pipe: &Path) -> (Child, File) {
    let _ = fs::remove_file(pipe);
    let made = Command::new("mkfifo").arg(pipe).status().unwrap();
    assert!(made.success());
    let command = command.arg("--model").arg(pipe).stderr(Stdio::piped());
    let program = command.spawn().unwrap();
    // Opens when the program reads the model.
    let model = OpenOptions::new().write(true).open(pipe).unwrap();
    fs::remove_file(pipe).unwrap();
    (program, model)
}

/// Whoever probes a port, as a balancer does, takes a connection for an answer.
#[test]
fn nobody_connects_while_the_model_is_loaded() {
    let pipe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("slow.gguf");
    // An address of its own, so that no other test takes the port in between.
    let free = TcpListener::bind("127.0.0.9:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut program = command(&[], &["--listen", &address.to_string()]);
    let (mut program, model) = start_with_pipe(&mut program, &pipe);
    let connected = TcpStream::connect(address);
    program.kill().unwrap();
    program.wait().unwrap();
    drop(model);
    assert!(connected.is_err());
}

#[test]
fn a_signal_ends_it_while_it_opens_the_model() {
    let pipe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stuck.gguf");
    let mut program = command(&[], &[]);
    let (program, _model) = start_with_pipe(&mut program, &pipe);
    signal(&program, "TERM");
    let (status, said) = ended(program);
    assert!(status.success(), "{status}: {said}");
    assert!(
        said.contains("stopped before the model was there"),
        "{said}"
    );
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
