package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) groupCommand() *cobra.Command {
	cmd := group("group", "Manage groups of accounts and of stations",
		"A group is of accounts or of stations. \"gatehouse grant\" takes its name in the place of\nan e-mail address or of the number of a station.")
	cmd.AddCommand(a.groupAdd(), a.groupList(), a.groupRemove())
	return cmd
}

func (a *app) groupAdd() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "add GROUP MEMBER...",
		Short: "Add accounts or stations to a group",
		Long: `Add accounts, by their e-mail addresses, or stations, by their numbers, to a group. A
group that is not there is created. Its grants hold for new members at once.`,
		Example: `  gatehouse group add cleaners anna@example.test ben@example.test
  gatehouse group add "ground floor" 1042 1043
  gatehouse grant cleaners "ground floor" --hours "Mon-Fri 18:00-22:00"`,
	}, func(ctx context.Context, gw *client.Client, in arguments) error {
		members, err := parseMembers(in.texts)
		if err != nil {
			return err
		}
		return show(a, groupLine)(gw.ChangeGroup(ctx, in.group, adminapi.GroupPatch{Add: members}))
	})
}

// parseMembers reads e-mail addresses or station ids.
func parseMembers(texts []string) (m adminapi.Members, err error) {
	for _, text := range texts {
		if strings.Contains(text, "@") {
			email, notEmail := site.ParseEmail(text)
			m.Accounts, err = append(m.Accounts, email), errors.Join(err, notEmail)
		} else {
			id, notID := site.ParseStationID(text)
			m.Stations, err = append(m.Stations, id), errors.Join(err, notID)
		}
	}
	if err == nil && m.Accounts != nil && m.Stations != nil {
		err = errors.New("a group is of accounts or of stations, not of both")
	}
	if err != nil {
		return m, wrongUsage(err)
	}
	return m, nil
}

func groupLine(w *lines, g adminapi.Group) { w.printf("Group %s: %s.", g.Name, membersText(g.Members)) }

func membersText(m adminapi.Members) string {
	var texts []string
	for _, ref := range m.Refs() {
		if ref.Station != 0 {
			texts = append(texts, "station "+ref.String())
		} else {
			texts = append(texts, ref.String())
		}
	}
	if len(texts) == 0 {
		return "no members"
	}
	return strings.Join(texts, ", ")
}

func (a *app) groupList() *cobra.Command {
	return a.remote(&cobra.Command{Use: "list", Short: "List the groups"}, shown(a, (*client.Client).Groups,
		listing("There are no groups; \"gatehouse group add GROUP MEMBER...\" adds one.", []string{"GROUP", "MEMBERS"}, func(g adminapi.Group) []string {
			return []string{string(g.Name), membersText(g.Members)}
		})))
}

func (a *app) groupRemove() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "remove GROUP [MEMBER...]",
		Short: "Remove a group with its grants, or members of it",
		Long:  "Remove accounts or stations from a group, or, where none is named, the group with its\ngrants, without asking. It takes effect with the next request.",
	}, func(ctx context.Context, gw *client.Client, in arguments) error {
		if len(in.texts) == 0 {
			return a.gone(removed{Name: string(in.group)}, gw.RemoveGroup(ctx, in.group), "Group %s and its grants are removed.", in.group)
		}
		members, err := parseMembers(in.texts)
		if err != nil {
			return err
		}
		return show(a, groupLine)(gw.ChangeGroup(ctx, in.group, adminapi.GroupPatch{Remove: members}))
	})
}
