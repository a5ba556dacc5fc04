// Asks the user before a command that contains the word `gate`.

export default (pi) => {
    pi.on("tool_call", async (event, ctx) => {
        if (!JSON.stringify(event.input).includes("gate")) return;
        const allowed = await ctx.ui.confirm("Run this command?", event.input.command ?? "");
        if (!allowed) return { block: true, reason: "The user has denied this command." };
    });
};
