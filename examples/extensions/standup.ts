// A command with questions to the user: `/standup` asks what was done and keeps a note of it.
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.registerCommand("standup", {
    description: "Note what was done today",
    handler: async (args, ctx) => {
      const kind = await ctx.ui.select("What kind of work was it?", ["feature", "fix", "chore"]);
      if (!kind) return ctx.ui.notify("Nothing noted", "warning");
      const what = args || (await ctx.ui.input("What was done?", "one line"));
      pi.appendEntry("standup", { kind, what });
      ctx.ui.notify(`Noted: ${kind}, ${what}`, "info");
    },
  });
}
