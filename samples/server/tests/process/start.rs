//! What others see of the program before it can answer.

use std::fs::{self, OpenOptions};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use crate::program::{command, end};

/// Whoever probes a port, as a balancer does, takes a connection for an answer.
#[test]
fn nobody_connects_while_the_model_is_loaded() {
    let pipe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("slow.gguf");
    let _ = fs::remove_file(&pipe);
    assert!(Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap()
        .success());
    // An address of its own, so that no other test takes the port in between.
    let free = TcpListener::bind("127.0.0.9:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut program = command(&[], &["--listen", &address.to_string()]);
    let mut program = program.arg("--model").arg(&pipe).spawn().unwrap();
    // Opens when the program reads the model.
    let model = OpenOptions::new().write(true).open(&pipe).unwrap();
    let connected = TcpStream::connect(address);
    program.kill().unwrap();
    program.wait().unwrap();
    drop(model);
    fs::remove_file(&pipe).unwrap();
    assert!(connected.is_err());
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
