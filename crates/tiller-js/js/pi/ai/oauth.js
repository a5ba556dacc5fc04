// Logins of providers belong to tiller, not to extensions: these functions throw and say so.

function belongsElsewhere(name) {
	return async () => {
		throw new Error(`${name} is not available inside tiller; use \`tiller auth\``);
	};
}

export const loginAnthropic = belongsElsewhere("loginAnthropic");
export const loginOpenAICodex = belongsElsewhere("loginOpenAICodex");
export const loginGitHubCopilot = belongsElsewhere("loginGitHubCopilot");
export const refreshAnthropicToken = belongsElsewhere("refreshAnthropicToken");
export const refreshOpenAICodexToken = belongsElsewhere("refreshOpenAICodexToken");
export const getOAuthApiKey = belongsElsewhere("getOAuthApiKey");
export const getOAuthProviders = () => [];
export const getOAuthProvider = () => undefined;
export const registerOAuthProvider = () => {};
