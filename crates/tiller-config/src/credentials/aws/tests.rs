use std::fs;

use expect_test::expect;
use tempfile::TempDir;

use super::*;

/// A home folder with these files of Amazon's tools.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new(credentials: &str) -> Home {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".aws")).unwrap();
        fs::write(folder.path().join(".aws/credentials"), credentials).unwrap();
        fs::write(folder.path().join(".aws/config"), "[profile work]\nregion = eu-west-1\n")
            .unwrap();
        Home { folder }
    }

    fn amazon(&self, variables: &[(&str, &str)]) -> Aws {
        let home = ("HOME", self.folder.path().to_str().unwrap());
        let all = variables.iter().chain([&home]);
        let pairs = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Aws::new(Arc::new(pairs.collect()))
    }
}

async fn shown(amazon: &Aws) -> String {
    let source = amazon.source().unwrap_or("nothing");
    let keys = match amazon.keys().await {
        Ok(Some(keys)) => format!("{} {keys:?}", keys.access_key_id),
        Ok(None) => "no keys".to_owned(),
        Err(why) => format!("! {why}"),
    };
    assert!(!keys.contains("hush"), "{keys}");
    format!("{source}: {keys}\n")
}

#[tokio::test]
async fn keys_come_from_the_environment_or_a_profile() {
    let home = Home::new(
        "[work]\naws_access_key_id = W\naws_secret_access_key = hush-1\n\
         aws_session_token = hush-2\n[sso]\nsso_session = x\n\
         [odd]\ncredential_process = echo hush\n[bad]\ncredential_process = exit 3\n",
    );
    let both = [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "hush-3")];
    let profile = |name| ("AWS_PROFILE", name);
    let mut report = String::new();
    for variables in [
        vec![],
        vec![both[0]],
        both.to_vec(),
        vec![both[0], both[1], ("AWS_SESSION_TOKEN", "hush-4"), ("AWS_REGION", "us-west-2")],
        vec![profile("work")],
        // A named profile has precedence over keys in the environment.
        vec![profile("work"), both[0], both[1]],
        vec![profile("sso")],
        vec![profile("odd")],
        vec![profile("bad")],
        vec![profile("nobody")],
        vec![profile("work"), ("AWS_BEDROCK_SKIP_AUTH", "1")],
        vec![("AWS_BEDROCK_SKIP_AUTH", "1")],
    ] {
        report += &shown(&home.amazon(&variables)).await;
    }
    expect![[r#"
        nothing: ! there is no profile `default`. Set what `aws configure export-credentials --profile default --format env` prints
        nothing: ! there is no profile `default`. Set what `aws configure export-credentials --profile default --format env` prints
        AWS_ACCESS_KEY_ID: E AwsKeys { access_key_id: "E", secret_access_key: [redacted], session_token: None, region: None }
        AWS_ACCESS_KEY_ID: E AwsKeys { access_key_id: "E", secret_access_key: [redacted], session_token: Some([redacted]), region: Some("us-west-2") }
        AWS_PROFILE: W AwsKeys { access_key_id: "W", secret_access_key: [redacted], session_token: Some([redacted]), region: Some("eu-west-1") }
        AWS_PROFILE: W AwsKeys { access_key_id: "W", secret_access_key: [redacted], session_token: Some([redacted]), region: Some("eu-west-1") }
        AWS_PROFILE: ! the profile `sso` has no keys and no credential_process. Set what `aws configure export-credentials --profile sso --format env` prints
        AWS_PROFILE: ! credential_process of `odd`: the command did not print JSON with AccessKeyId and SecretAccessKey
        AWS_PROFILE: ! credential_process of `bad`: the command `exit …` failed with exit code 3
        AWS_PROFILE: ! there is no profile `nobody`. Set what `aws configure export-credentials --profile nobody --format env` prints
        AWS_PROFILE: no keys
        AWS_BEDROCK_SKIP_AUTH: no keys
    "#]].assert_eq(&report);
}

#[tokio::test]
async fn credential_process_runs_again_when_keys_expire() {
    let count = |ends: &str| {
        let home = Home::new("");
        let log = home.folder.path().join("log");
        let keys = format!(
            r#"{{"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "s", "SessionToken": "t"{ends}}}"#
        );
        fs::write(home.folder.path().join("keys"), keys).unwrap();
        let place = home.folder.path().display();
        let process = format!("echo run >> {place}/log; cat {place}/keys");
        let credentials = format!("[default]\ncredential_process = {process}\n");
        fs::write(home.folder.path().join(".aws/credentials"), credentials).unwrap();
        async move {
            let amazon = home.amazon(&[("AWS_PROFILE", "default")]);
            for _ in 0..3 {
                assert_eq!(amazon.keys().await.unwrap().unwrap().access_key_id, "P");
            }
            fs::read_to_string(log).unwrap().lines().count()
        }
    };
    assert_eq!(count("").await, 1);
    assert_eq!(count(r#", "Expiration": "2999-01-01T00:00:00Z""#).await, 1);
    assert_eq!(count(r#", "Expiration": "1999-01-01T00:00:00Z""#).await, 3);
}

#[test]
fn region_comes_from_variable_or_profile() {
    let home = Home::new("");
    let region = |variables: &[(&str, &str)]| home.amazon(variables).region();
    let (first, second) = (("AWS_REGION", "us-west-2"), ("AWS_DEFAULT_REGION", "ca-central-1"));
    assert_eq!(region(&[]), None);
    assert_eq!(region(&[("AWS_PROFILE", "work")]).as_deref(), Some("eu-west-1"));
    assert_eq!(region(&[("AWS_PROFILE", "work"), second]).as_deref(), Some("ca-central-1"));
    assert_eq!(region(&[first, second]).as_deref(), Some("us-west-2"));
}
