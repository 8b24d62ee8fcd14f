//! The server as a process: one per socket, private, gone when its supervisor is.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use memory_agent_model_server::BlockingClient;
use memory_agent_model_server::protocol::{Purpose, Request, Response};

use crate::common::{
    SERVER, Server, TemporaryDirectory, embed_request, embedder, mean_embedder, onnxruntime,
    reranker, single_windows, wait_until,
};

#[test]
fn the_socket_is_private() {
    let server = Server::start();
    for path in [server.socket(), server.directory.path().join("socket.lock")] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn a_second_server_on_a_socket_is_refused_and_the_first_goes_on() {
    let server = Server::start();
    let output = Server::command(&server.socket()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("another model server holds"), "{message}");
    assert_eq!(server.status().pid, server.child.id());
}

#[test]
fn a_socket_left_behind_is_replaced() {
    let mut server = Server::start();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(server.socket().exists(), "a killed server cannot clean up");
    assert!(BlockingClient::connect(server.socket()).is_err());
    server.child = Server::command(&server.socket()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the new server answers", || {
        BlockingClient::connect(server.socket())
            .is_ok_and(|mut client| client.call(&Request::Status).is_ok())
    });
    assert_eq!(server.status().pid, server.child.id());
}

#[test]
fn ends_when_its_pipe_closes_and_removes_the_socket() {
    let mut server = Server::start();
    server.connect().call(&embed_request(Purpose::Query, &["Who moved?"])).unwrap();
    let closed = Instant::now();
    drop(server.child.stdin.take());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert!(closed.elapsed() < Duration::from_secs(1), "{:?}", closed.elapsed());
    assert!(!server.socket().exists());
}

#[test]
fn ends_at_once_on_sigterm_also_at_work() {
    let mut server = Server::start();
    let mut client = server.connect();
    client.call(&Request::Describe { model: embedder() }).unwrap();
    let texts: Vec<String> = (0..500).map(|seed| crate::common::text(seed, 100)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    client.send(&embed_request(Purpose::Document, &texts)).unwrap();
    wait_until("the request is queued", || server.status().queue_items > 0);
    let sent = Instant::now();
    Command::new("kill").arg(server.child.id().to_string()).status().unwrap();
    server.child.wait().unwrap();
    assert!(sent.elapsed() < Duration::from_secs(1), "{:?}", sent.elapsed());
}

#[test]
fn dies_with_its_parent_even_if_the_pipe_stays_open() {
    let directory = TemporaryDirectory::new();
    let socket = directory.path().join("socket");
    // The shell is the parent; this test holds the writing end of the pipe.
    let mut shell = Command::new("sh")
        .args(["-c", "exec 3<&0; \"$0\" \"$@\" --lifetime-fd 3 & wait", SERVER, "--socket"])
        .arg(&socket)
        .arg("--onnxruntime")
        .arg(onnxruntime())
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the server answers", || BlockingClient::connect(&socket).is_ok());
    let response = BlockingClient::connect(&socket).unwrap().call(&Request::Status).unwrap();
    let Response::Status(status) = response else { panic!("{response:?}") };
    assert_ne!(status.pid, shell.id());
    shell.kill().unwrap();
    shell.wait().unwrap();
    let process = format!("/proc/{}/stat", status.pid);
    wait_until("the server is gone", || match std::fs::read_to_string(&process) {
        // In a container there may be no process that collects the orphan: then it stays as a zombie.
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")),
        Err(_) => true,
    });
    // The socket goes with the last thread, a moment after the process counts as dead.
    wait_until("the socket is closed", || BlockingClient::connect(&socket).is_err());
}

#[test]
fn does_not_start_under_another_parent_or_without_its_pipe() {
    let directory = TemporaryDirectory::new();
    let socket = directory.path().join("socket");
    let output = Server::command(&socket).args(["--parent", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let output = Server::command(&socket).args(["--lifetime-fd", "987"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("987"), "{message}");
}

#[test]
fn a_path_too_long_for_a_socket_is_refused_and_a_relative_one_works() {
    let directory = TemporaryDirectory::new();
    let long = directory.path().join("x".repeat(108));
    let output = Server::command(&long).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("107"), "{message}");

    let mut child = Server::command("relative.sock".as_ref())
        .current_dir(directory.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the server listens", || directory.path().join("relative.sock").exists());
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn bad_options_are_explained() {
    for options in [vec!["--threads", "0"], vec!["--colour", "red"], vec!["--socket"]] {
        let output = Command::new(SERVER).args(&options).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(options[0]) && message.contains("Usage:"), "{message}");
    }
}

#[test]
fn preloads_models_and_answers_at_once_after_a_cold_start() {
    let server = Server::start_with(&["--preload", &embedder().directory, "--preload", "/none"]);
    let mut client = server.connect();
    let response = client.call(&embed_request(Purpose::Query, &["Who moved?"])).unwrap();
    assert_eq!(single_windows(response)[0].len(), 384);
    wait_until("both preloads are logged", || {
        server.log().contains("loaded") && server.log().contains("preload: ")
    });
}

/// The default embedder, on a server whose databases all use another one.
#[test]
fn a_preloaded_model_that_nobody_asks_for_makes_room_for_another_of_its_kind() {
    let (default, used) = (mean_embedder(), embedder());
    let options = ["--preload", &default.directory, "--preload", &reranker().directory];
    let server = Server::start_with(&options);
    let loaded = || -> Vec<String> {
        server.status().models.into_iter().map(|model| model.directory).collect()
    };
    wait_until("both are loaded", || loaded().len() == 2);

    let mut client = server.connect();
    client.call(&Request::Describe { model: used.clone() }).unwrap();
    assert!(!loaded().contains(&default.directory), "{:?}", loaded());
    assert_eq!(loaded().len(), 2, "the reranker stays: {:?}", loaded());

    // Once a client asks for it, it stays as well.
    client.call(&Request::Describe { model: default.clone() }).unwrap();
    client.call(&Request::Describe { model: used }).unwrap();
    assert_eq!(loaded().len(), 3, "{:?}", loaded());
}
