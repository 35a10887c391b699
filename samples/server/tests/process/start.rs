//! What others see of the program before it can answer.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::client::post;
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

/// Of an engine when it is there, and later.
#[test]
fn what_the_library_warns_of_is_said() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken-cache");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("tmp"); // in place of a folder
    fs::write(&file, "").unwrap();
    for (path, says) in [(&file, "cache_disk"), (&folder, "cannot open a file")] {
        let option = format!("cache_disk={}", path.display());
        let mut program = command(&[], &["--option", &option]);
        let mut program = program.stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(program.stderr.take().unwrap());
        let program = Program::of(program);
        let body = json!({"prompt": "a ".repeat(100), "max_tokens": 1});
        assert_eq!(
            post(program.address, "/v1/completions", &body)
                .unwrap()
                .code,
            200
        );
        program.stop();
        let lines: Vec<String> = said.lines().map(Result::unwrap).collect();
        let begin = "prefix-server: warning: ";
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with(begin) && line.contains(says)),
            "{lines:?}"
        );
    }
}
