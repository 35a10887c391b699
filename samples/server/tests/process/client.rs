//! A client that sends bytes as they are and says exactly what came back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

pub struct Connection(pub BufReader<TcpStream>);

#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    /// In lower case.
    pub head: String,
    pub body: Vec<u8>,
}

/// There is no whole answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nobody took the connection.
    Refused,
    /// It was closed, or broke, without a byte of an answer.
    Nothing,
    /// In the middle of the answer.
    Cut(String),
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub fn closes(&self) -> bool {
        self.head.contains("connection: close")
    }
}

pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nhost: here\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend(format!("{name}: {value}\r\n").bytes());
    }
    bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
    bytes.extend(body);
    bytes
}

pub fn get(address: SocketAddr, path: &str) -> Result<Answer, Lost> {
    let mut connection = Connection::open(address)?;
    connection.send(&request("GET", path, &[], b""))?;
    connection.answer()
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Result<Answer, Lost> {
    let mut connection = Connection::open(address)?;
    connection.send(&request("POST", path, &[], body.to_string().as_bytes()))?;
    connection.answer()
}

impl Connection {
    pub fn open(address: SocketAddr) -> Result<Connection, Lost> {
        let stream = TcpStream::connect(address).map_err(|_| Lost::Refused)?;
        stream.set_nodelay(true).map_err(|_| Lost::Refused)?;
        Ok(Connection(BufReader::new(stream)))
    }

    /// That the other side has closed shows when the answer is read: there may be one.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        let _ = self.0.get_mut().write_all(bytes);
        Ok(())
    }

    pub fn head(&mut self) -> Result<(u16, String), Lost> {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line);
            if !matches!(read, Ok(1..)) {
                return Err(match head.is_empty() {
                    true => Lost::Nothing,
                    false => Lost::Cut(head),
                });
            }
            if line == "\r\n" {
                let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
                let code = code.ok_or(Lost::Cut(head.clone()))?;
                if code == 100 {
                    head.clear();
                    continue;
                }
                return Ok((code, head.to_lowercase()));
            }
            head += &line;
        }
    }

    pub fn answer(&mut self) -> Result<Answer, Lost> {
        let (code, head) = self.head()?;
        let body = self.body(&head)?;
        Ok(Answer { code, head, body })
    }

    pub fn body(&mut self, head: &str) -> Result<Vec<u8>, Lost> {
        let mut body = Vec::new();
        let cut = |body: &[u8]| Lost::Cut(String::from_utf8_lossy(body).into_owned());
        if head.contains("transfer-encoding: chunked") {
            loop {
                let mut size = String::new();
                self.0.read_line(&mut size).map_err(|_| cut(&body))?;
                let size = usize::from_str_radix(size.trim(), 16).map_err(|_| cut(&body))?;
                let mut part = vec![0; size + 2];
                self.0.read_exact(&mut part).map_err(|_| cut(&body))?;
                if size == 0 {
                    return Ok(body);
                }
                body.extend_from_slice(&part[..size]);
            }
        }
        match head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
        {
            Some(length) => {
                body.resize(length.trim().parse().unwrap(), 0);
                self.0.read_exact(&mut body).map_err(|_| cut(b"a body"))?;
            }
            None => drop(self.0.read_to_end(&mut body)),
        }
        Ok(body)
    }
}
