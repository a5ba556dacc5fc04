//! The address of an Amazon Bedrock model: every region has its own.

use tiller_agent::model::Model;

pub(super) const API: &str = "bedrock-converse-stream";

/// Points a model at `endpoint`, or else at the address of `region`.
pub(super) fn apply_region(model: &mut Model, endpoint: Option<&str>, region: Option<&str>) {
    if let Some(endpoint) = endpoint {
        model.base_url = endpoint.to_owned();
        return;
    }
    let Some(default) = region_of(&model.base_url) else { return };
    // An ARN names its region: `arn:aws:bedrock:REGION:…`.
    let own = model.id.strip_prefix("arn:").and_then(|arn| arn.split(':').nth(2));
    // `eu.` and similar prefixes work in that part of the world only.
    let area = model.id.split_once('.').map_or("", |(area, _)| area);
    let is_in_area = |region: &str| region.split('-').next() == Some(area);
    let region = region.filter(|region| is_in_area(region) || !is_in_area(default));
    // Ignore a region that is not a valid name: it would become part of a host name.
    let is_name = |region: &&str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !region.is_empty() && region.bytes().all(is_letter)
    };
    if let Some(region) = own.filter(is_name).or(region.filter(is_name)) {
        let end = if region.starts_with("cn-") { "com.cn" } else { "com" };
        model.base_url = format!("https://bedrock-runtime.{region}.amazonaws.{end}");
    }
}

/// The region in one of Amazon's own addresses.
fn region_of(url: &str) -> Option<&str> {
    url.strip_prefix("https://bedrock-runtime.")?.strip_suffix(".amazonaws.com")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::models::Models;

    #[test]
    fn region_comes_from_arn_area_or_variable() {
        let us = "https://bedrock-runtime.us-east-1.amazonaws.com";
        let eu = "https://bedrock-runtime.eu-central-1.amazonaws.com";
        let mut report = String::new();
        for (id, base_url, region) in [
            ("anthropic.claude", us, None),
            ("anthropic.claude", us, Some("eu-west-1")),
            ("anthropic.claude", us, Some("cn-north-1")),
            ("eu.anthropic.claude", eu, None),
            ("eu.anthropic.claude", eu, Some("eu-west-1")),
            ("eu.anthropic.claude", eu, Some("us-west-2")),
            ("us.anthropic.claude", us, Some("us-west-2")),
            ("us.anthropic.claude", us, Some("eu-west-1")),
            ("apac.anthropic.claude", us, Some("ap-south-1")),
            ("global.anthropic.claude", us, Some("eu-west-1")),
            ("arn:aws:bedrock:ap-south-1:1:application-inference-profile/x", us, Some("eu-west-1")),
            ("arn:aws:bedrock::1:x", us, Some("eu-west-1")),
            ("anthropic.claude", us, Some("evil.example/")),
            ("anthropic.claude", "https://gateway.example", Some("eu-west-1")),
        ] {
            let (id, base_url) = (id.to_owned(), base_url.to_owned());
            let mut model = Model { id, base_url, ..(*Models::none()).clone() };
            apply_region(&mut model, None, region);
            let region = region.unwrap_or("-");
            report += &format!("{} {region}: {}\n", model.id, model.base_url);
        }
        expect![[r#"
            anthropic.claude -: https://bedrock-runtime.us-east-1.amazonaws.com
            anthropic.claude eu-west-1: https://bedrock-runtime.eu-west-1.amazonaws.com
            anthropic.claude cn-north-1: https://bedrock-runtime.cn-north-1.amazonaws.com.cn
            eu.anthropic.claude -: https://bedrock-runtime.eu-central-1.amazonaws.com
            eu.anthropic.claude eu-west-1: https://bedrock-runtime.eu-west-1.amazonaws.com
            eu.anthropic.claude us-west-2: https://bedrock-runtime.eu-central-1.amazonaws.com
            us.anthropic.claude us-west-2: https://bedrock-runtime.us-west-2.amazonaws.com
            us.anthropic.claude eu-west-1: https://bedrock-runtime.us-east-1.amazonaws.com
            apac.anthropic.claude ap-south-1: https://bedrock-runtime.ap-south-1.amazonaws.com
            global.anthropic.claude eu-west-1: https://bedrock-runtime.eu-west-1.amazonaws.com
            arn:aws:bedrock:ap-south-1:1:application-inference-profile/x eu-west-1: https://bedrock-runtime.ap-south-1.amazonaws.com
            arn:aws:bedrock::1:x eu-west-1: https://bedrock-runtime.eu-west-1.amazonaws.com
            anthropic.claude evil.example/: https://bedrock-runtime.us-east-1.amazonaws.com
            anthropic.claude eu-west-1: https://gateway.example
        "#]].assert_eq(&report);
        let mut model = Model { base_url: us.to_owned(), ..(*Models::none()).clone() };
        apply_region(&mut model, Some("http://gateway"), Some("eu-west-1"));
        assert_eq!(model.base_url, "http://gateway");
    }
}
