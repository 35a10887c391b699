//! The program, started as anybody would, and what the system says of it.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::client::{self, Connection};

pub struct Program {
    pub address: SocketAddr,
    child: Child,
    _out: BufReader<ChildStdout>,
}

/// What may leak.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    pub bytes: usize,
    pub files: usize,
    pub threads: usize,
}

pub fn model() -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    PathBuf::from(root).join("build/models/SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// A command that runs the program, behind the words of `wrapper`: the one that PREFIX_SERVER names, or else that of
/// this build.
pub fn command(wrapper: &[&str], options: &[&str]) -> Command {
    let named = env::var("PREFIX_SERVER");
    let program = named
        .as_deref()
        .unwrap_or(env!("CARGO_BIN_EXE_prefix-server"));
    let words = [wrapper, &[program]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg("--model").arg(model());
    command.args(["--name", "small", "--listen", "127.0.0.1:0"]);
    command.args(options);
    if let Some(folder) = option_env!("PREFIX_LIB_DIR") {
        command.env("LD_LIBRARY_PATH", folder);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

impl Program {
    pub fn start(options: &[&str]) -> Program {
        Program::start_by(&[], options)
    }

    pub fn start_by(wrapper: &[&str], options: &[&str]) -> Program {
        let mut command = command(wrapper, options);
        Program::of(command.stderr(Stdio::null()).spawn().unwrap())
    }

    /// Waits until it listens.
    pub fn of(mut child: Child) -> Program {
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap();
        let address = address
            .parse()
            .unwrap_or_else(|_| panic!("it says {line:?}"));
        Program {
            address,
            child,
            _out: out,
        }
    }

    pub fn held(&self) -> Held {
        let folder = PathBuf::from(format!("/proc/{}", self.child.id()));
        let status = fs::read_to_string(folder.join("status")).unwrap();
        let number = |name: &str| -> usize {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        Held {
            bytes: number("VmRSS:") << 10,
            files: fs::read_dir(folder.join("fd")).unwrap().count(),
            threads: number("Threads:"),
        }
    }

    /// One number of /metrics, all of its series together.
    pub fn metric(&self, name: &str) -> f64 {
        self.metric_by(&mut Connection::open(self.address).unwrap(), name)
    }

    fn metric_by(&self, connection: &mut Connection, name: &str) -> f64 {
        connection
            .send(&client::request("GET", "/metrics", &[], b""))
            .unwrap();
        let text = connection.answer().unwrap().text();
        let lines = text.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with([' ', '{']))
        });
        let numbers: Vec<f64> = lines
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(!numbers.is_empty(), "no {name} in\n{text}");
        numbers.iter().sum()
    }

    /// Waits until nothing is answered or computed any more and one connection alone is open: the one that it returns, so
    /// that what is held meanwhile can be counted.
    pub fn settle(&self) -> Connection {
        let busy = [
            ("prefix_server_in_flight", 0.0),
            ("num_requests_running", 0.0),
            ("num_requests_waiting", 0.0),
            ("prefix_server_connections", 1.0),
        ];
        let mut connection = Connection::open(self.address).unwrap();
        while busy
            .iter()
            .any(|&(name, idle)| self.metric_by(&mut connection, name) > idle)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        connection
    }

    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Ends it as an operator does.
    pub fn stop(self) {
        self.signal("TERM");
        let status = self.wait();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let done = Command::new("kill")
        .args([&format!("-{name}"), &id])
        .status();
    assert!(done.unwrap().success());
}

/// How a program ends that does not get as far as to serve, and what it says.
pub fn end(mut command: Command) -> (ExitStatus, String) {
    ended(command.stderr(Stdio::piped()).spawn().unwrap())
}

pub fn ended(mut child: Child) -> (ExitStatus, String) {
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    (child.wait().unwrap(), said)
}
