//! AWS Signature Version 4: proves possession of the key without sending it.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use tiller_agent::provider::ProviderError;

use crate::request_options::AwsKeys;

/// The headers to add.
pub(super) fn headers(
    url: &str,
    body: &[u8],
    keys: &AwsKeys,
    now: SystemTime,
) -> Result<Vec<(&'static str, String)>, ProviderError> {
    let cannot = |err: &dyn std::error::Error| {
        ProviderError::fatal(format!("cannot sign the request: {err}"))
    };
    let session_token = keys.session_token.as_ref().map(|token| token.expose().to_owned());
    let secret = keys.secret_access_key.expose();
    let identity =
        Credentials::new(&keys.access_key_id, secret, session_token, None, "tiller").into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(region(url).or(keys.region.as_deref()).unwrap_or("us-east-1"))
        .name("bedrock")
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|err| cannot(&err))?
        .into();
    let request = SignableRequest::new("POST", url, std::iter::empty(), SignableBody::Bytes(body))
        .map_err(|err| cannot(&err))?;
    let (signed, _signature) = sign(request, &params).map_err(|err| cannot(&err))?.into_parts();
    let (headers, _query) = signed.into_parts();
    Ok(headers.iter().map(|header| (header.name(), header.value().to_owned())).collect())
}

/// Amazon's own URLs contain the region.
fn region(url: &str) -> Option<&str> {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split(['/', ':']).next().unwrap_or_default();
    let mut labels = host.split('.').skip_while(|label| !label.starts_with("bedrock-runtime"));
    labels.nth(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::*;
    use crate::request_options::Secret;

    #[test]
    fn region_is_read_from_the_url() {
        for (url, expected) in [
            ("https://bedrock-runtime.eu-central-1.amazonaws.com/model/x", Some("eu-central-1")),
            ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", Some("us-gov-west-1")),
            ("https://vpce-1.bedrock-runtime.ap-south-1.vpce.amazonaws.com/", Some("ap-south-1")),
            ("http://127.0.0.1:9/model/x", None),
            ("bedrock-runtime", None),
        ] {
            assert_eq!(region(url), expected, "{url}");
        }
    }

    #[test]
    fn signature_depends_on_everything_it_covers() {
        let keys = AwsKeys {
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: Some(Secret::new("lent-for-an-hour")),
            region: None,
        };
        let url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/a%3A0/converse-stream";
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        let signed = headers(url, b"{}", &keys, now).unwrap();
        let printed: String =
            signed.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        expect![[r#"
            x-amz-date: 20150830T123600Z
            authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=19515f0610b5c4b9be16301d45a9e408200fa8b99166a39b923835ccd46823ce
            x-amz-security-token: lent-for-an-hour
        "#]].assert_eq(&printed);
        assert!(!printed.contains("EXAMPLEKEY"), "the secret stays here");
        assert_ne!(headers(url, b"{ }", &keys, now).unwrap(), signed);
        let elsewhere = AwsKeys { region: Some("eu-west-1".into()), ..keys.clone() };
        assert_eq!(headers(url, b"{}", &elsewhere, now).unwrap(), signed);
        let gateway = headers("https://gateway.example/", b"{}", &elsewhere, now).unwrap();
        assert!(gateway[1].1.contains("/20150830/eu-west-1/bedrock/"), "{gateway:?}");
        assert_ne!(headers(url, b"{}", &keys, now + Duration::from_secs(1)).unwrap(), signed);
    }
}
