//! Runs a session in the test's own process, by the example and by the handle.

use std::sync::Arc;
use std::time::Duration;

use tiller_config::credentials::Credentials;
use tiller_config::models::Models;
use tiller_config::project::{Dirs, Project, ResourceFlags};
use tiller_demo::demo::Demo;
use tiller_llm::CacheRetention;
use tiller_protocol::{Command, Prompt, Record};
use tiller_server::{ServerConfig, SessionHandle};

#[path = "../examples/embed.rs"]
#[expect(dead_code, reason = "its main function is not called")]
mod example;

fn config(folder: &std::path::Path) -> ServerConfig {
    let dirs = Dirs { cwd: folder.to_owned(), agent_dir: folder.join(".pi/agent"), home: None };
    let project = Project::find(dirs, ResourceFlags::default());
    let keys = Credentials::default();
    let mut models = Models::new(keys, &project.settings(), CacheRetention::Short);
    models.add_builtin(Demo::model(), Arc::new(Demo::new(Duration::ZERO)));
    ServerConfig::new(project, models, Arc::new(Demo::model()))
}

#[tokio::test]
async fn example_prints_calls_and_answer() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rudder.txt"), "port").unwrap();
    let mut out = Vec::new();
    example::answer(folder.path(), "List the files here.", &mut out).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("[bash]"), "{text}");
    assert!(text.contains("rudder.txt"), "{text}");
}

#[tokio::test]
async fn ten_sessions_in_one_process_answer_their_own_prompts() {
    let folders: Vec<_> = (0..10).map(|_| tempfile::tempdir().unwrap()).collect();
    let asked = folders.iter().enumerate().map(|(number, folder)| async move {
        std::fs::write(folder.path().join(format!("file-{number}.txt")), "x").unwrap();
        let mut out = Vec::new();
        example::answer(folder.path(), "List the files here.", &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    });
    let answers = futures_util::future::join_all(asked).await;
    for (number, answer) in answers.iter().enumerate() {
        assert!(answer.contains(&format!("file-{number}.txt")), "{answer}");
        assert_eq!(
            answer.matches("file-").count(),
            answer.matches(&format!("file-{number}")).count()
        );
    }
}

#[tokio::test]
async fn each_command_gets_one_response_with_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = SessionHandle::start(config(folder.path()));
    let first = session.send(&Command::GetState).await.unwrap();
    let empty = Prompt { message: String::new(), ..Prompt::default() };
    let second = session.send(&Command::Prompt(empty)).await.unwrap();
    let mut responses = Vec::new();
    while responses.len() < 2 {
        if let Some(Record::Response(response)) = session.next().await {
            responses.push(response);
        }
    }
    assert!(responses[0].answers(&first) && responses[0].success);
    assert!(responses[1].answers(&second) && !responses[1].success);
    assert_eq!(session.close().await, 0);
}

#[tokio::test]
async fn dropping_a_session_ends_the_commands_of_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = SessionHandle::start(config(folder.path()));
    let message = "run `echo $$ > pid; exec sleep 300`".to_owned();
    session.send(&Command::Prompt(Prompt { message, ..Prompt::default() })).await.unwrap();
    let file = folder.path().join("pid");
    let pid = loop {
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        if let Some(pid) = written.strip_suffix('\n') {
            break pid.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let process = std::path::PathBuf::from(format!("/proc/{pid}"));
    assert!(process.exists());
    drop(session);
    let gone = async {
        while process.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("the command ends");
}
