// Asks before a command that deletes things is run, and says no when nobody answers.
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

const dangerous = [/\brm\s+-[a-z]*[rf]/, /\bgit\s+push\b.*--force/, /\bmkfs\b/];

export default function (pi: ExtensionAPI) {
  pi.on("tool_call", async (event, ctx) => {
    if (event.toolName !== "bash") return;
    const command = String(event.input.command ?? "");
    if (!dangerous.some((pattern) => pattern.test(command))) return;
    const allowed =
      ctx.hasUI && (await ctx.ui.confirm("Run this command?", command, { timeout: 60_000 }));
    if (!allowed) return { block: true, reason: "The user does not want this command to run." };
  });
}
