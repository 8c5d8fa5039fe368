"""An index: every defect that trainers of this kind have shipped, and the test here that fails when it is planted.

The list of traps is the one of the design; from 40 on those of off-policy learning, in the order of its page. A name
that no longer exists fails, so that a test cannot be renamed or removed without a look at the trap that it was for.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

TRAPS = {
    1: "the last step of a segment has zero advantage",
    2: "a truncated episode bootstraps from the next one",
    3: "a time limit is reported as terminal",
    4: "the recurrent ratio is not 1 on the first minibatch",
    5: "a third of the data is unseen per epoch",
    6: "returns are rebuilt from overwritten values",
    7: "the advantage runs along the wrong axis in a fallback",
    8: "L2-to-initial has no gradient",
    9: "clip_range means two things, or is not passed on",
    10: "a key is accepted and ignored",
    11: "collectives on the leader only; abort on one rank; barrier in the final save",
    12: "a schedule runs on the leader only",
    13: "ranks are silently independent",
    14: "advantages are normalised otherwise alone than distributed",
    15: "the heart beats on the leader only; a long evaluation looks dead",
    16: "evaluation makes ranks wait",
    17: "an interval is missed when the epoch jumps",
    18: "the score in a checkpoint is stale",
    19: "a blanket except in loading restarts from zero",
    20: "negative and NaN scores, epoch 0, epoch 10000 and on, ties",
    21: "cleanup that matches nothing, or removes the best",
    22: "latest by time of writing; another run's checkpoint",
    23: "pickled classes break, or run code",
    24: "a nested path is doubled",
    25: "a shallow copy makes two evaluations the same",
    26: "an override invents keys inside a dictionary",
    27: "categories by substring",
    28: "one policy object is re-initialised for several environments",
    29: "remapping is ignored by an encoder, stale, or by wrong ids",
    30: "token trimming loses full rows; scatter overwrites index 0",
    31: "uint8 arithmetic on normalised values; rewards wrap around",
    32: "one copy of the curriculum per worker, all with the same seed",
    33: "a metric that is missing is shown as 0",
    34: "monitors slow training down",
    35: "steps per second are wrong after a resume",
    36: "Ctrl-C exits 0 without saving",
    37: "averaged weights are saved in the wrong mode",
    38: "Muon with an integer weight decay, or on embeddings",
    39: "documents claim what files do not show",
    40: "a time limit ends the value of a stored transition, or the next episode follows it",
    41: "n-step returns cross the end of an episode, or are discounted as longer ones",
    42: "transitions whose successor is overwritten are sampled",
    43: "the temperature of SAC follows a wrong target or gradient",
    44: "the log probability of squashed actions lacks its correction, its digits or the actions' scale",
    45: "scaled and unscaled actions are mixed up",
    46: "the noise of TD3's targets is not relative to the actions' scale, or leaves the bounds",
    47: "TD3 delays actor and targets by other counts than updates, or in another order",
    48: "intervals of off-policy updates are counted per process, or missed",
    49: "the actor's loss trains the critics too",
    50: "double Q-learning chooses with the target network",
    51: "statistics of observations are frozen into the buffer, or updated by replayed ones",
    52: "random actions ignore the bounds of the action space",
    53: "prioritised replay without its corrections",
    54: "scaled or clipped rewards are reported, or learned from unasked",
    55: "resuming forgets a part of off-policy learning",
    56: "PQN normalises after the activation, or bootstraps wrongly where an episode is cut",
    57: "discrete SAC samples where it should take the expectation",
}

CAUGHT_BY = {
    1: [
        "algorithms/test_advantages.py::test_the_last_step_of_a_segment_has_its_advantage_too",
        "algorithms/test_advantages.py::test_advantages_match_the_lambda_return_written_out",
    ],
    2: [
        "algorithms/test_advantages.py::test_nothing_of_the_next_episode_reaches_the_one_that_was_cut",
        "algorithms/test_rollout.py::test_a_truncated_episode_bootstraps_from_its_own_last_observation_not_the_next_episodes",
    ],
    3: [
        "envs/vector/test_in_process.py::test_a_time_limit_is_no_end_unless_the_episode_ended_as_well",
        "envs/test_make.py::test_a_time_limit_truncates_and_does_not_terminate",
        "learns/test_tiny.py::test_a_time_limit_does_not_lower_the_value_of_what_goes_on",
    ],
    4: [
        "algorithms/ppo/test_update.py::test_with_memory_the_ratio_is_one_before_any_update_though_episodes_end_inside_segments",
        "algorithms/ppo/test_update.py::test_an_update_through_memory_begins_at_a_ratio_of_one",
        "policies/memory/test_cell.py::test_a_sequence_equals_its_steps_whatever_resets_are_inside",
    ],
    5: [
        "algorithms/ppo/test_minibatches.py::test_each_sample_is_seen_exactly_once_per_epoch_with_its_own_fields",
        "algorithms/ppo/test_minibatches.py::test_without_priorities_each_sample_comes_exactly_once_and_with_them_it_need_not",
    ],
    6: [
        "algorithms/ppo/test_update.py::test_full_batch_steps_equal_ppo_written_out_with_autograd",
        "algorithms/ppo/test_minibatches.py::test_later_epochs_are_corrected_with_the_present_policys_ratios",
    ],
    7: [
        "algorithms/test_advantages.py::test_advantages_match_the_lambda_return_written_out",
        "algorithms/test_advantages.py::test_targets_and_advantages_match_the_sums_written_out",
    ],
    8: ["algorithms/test_optimizers.py::test_l2_init_alone_gives_the_gradient_of_the_distance_to_the_initial_weights"],
    9: ["algorithms/test_optimizers.py::test_after_every_step_every_weight_of_every_policy_lies_within_the_clip_range"],
    10: ["config/test_readers.py::test_every_key_has_a_reader"],
    11: [
        "processes/test_launcher.py::test_the_recipe_on_two_ranks_is_played_half_by_each_and_learned_by_both",
        "processes/test_distributed.py::test_a_signal_to_one_rank_stops_all_at_the_same_update",
        "processes/test_distributed.py::test_a_fault_on_one_rank_ends_all_and_the_leader_names_the_first_cause",
    ],
    12: ["processes/test_distributed.py::test_all_ranks_end_with_the_same_weights_with_schedules_on"],
    13: [
        "training/distributed/test_rank_info.py::test_a_part_of_it_is_refused_and_what_is_missing_named",
        "processes/test_distributed.py::test_a_rank_without_a_world_is_refused",
    ],
    14: ["training/distributed/test_reports.py::test_two_ranks_of_n_learn_what_one_of_2n_learns"],
    15: ["runner/test_loop.py::test_heartbeats_continue_while_the_last_evaluations_are_awaited"],
    16: [
        "runner/test_loop.py::test_no_rank_waits_for_an_evaluation_while_it_trains",
        "processes/test_distributed.py::test_an_evaluation_beside_two_ranks_equals_that_of_one_process",
    ],
    17: ["training/test_trainer.py::test_a_counter_that_jumps_over_a_multiple_still_fires"],
    18: [
        "evaluation/test_records.py::test_a_new_evaluation_replaces_a_stale_score",
        "evaluation/test_background_worker.py::test_every_epoch_is_evaluated_with_the_settings_of_its_run_and_its_metrics_are_returned",
    ],
    19: [
        "checkpoints/test_store.py::test_resume_never_starts_from_zero_silently",
        "runner/test_resume.py::test_checkpoints_that_are_all_damaged_do_not_mean_starting_from_zero",
    ],
    20: [
        "checkpoints/test_selection.py::test_the_best_come_first_and_the_unjudged_never",
        "checkpoints/test_selection.py::test_of_equals_the_one_trained_longer_wins_even_with_a_lower_epoch",
        "checkpoints/test_selection.py::test_nan_is_no_threshold",
        "checkpoints/test_store.py::test_latest_is_the_highest_number_whatever_was_written_last",
        "evaluation/test_records.py::test_negative_and_zero_scores_count",
    ],
    21: [
        "checkpoints/test_retention.py::test_the_files_after_a_cleanup_are_counted",
        "checkpoints/test_retention.py::test_the_newest_and_the_best_always_stay",
    ],
    22: ["checkpoints/test_store.py::test_latest_is_the_highest_number_whatever_was_written_last"],
    23: [
        "checkpoints/test_weights.py::test_a_pickle_in_place_of_a_state_is_not_executed",
        "checkpoints/test_hostile_files.py::test_files_that_need_no_child_are_refused_at_once",
        "test_architecture.py::test_nothing_that_a_file_says_is_executed_and_every_path_has_its_room",
    ],
    24: [
        "checkpoints/test_store.py::test_the_exact_tree_after_a_save",
        "runs/test_directory.py::test_every_entry_of_the_contract_has_its_place_directly_in_the_directory",
    ],
    25: [
        "config/test_resolve.py::test_what_is_handed_in_can_change_afterwards_without_changing_the_configuration",
        "config/test_resolve.py::test_two_configurations_from_one_recipe_share_nothing_that_can_change",
        "config/test_resolve.py::test_merge_shares_nothing_with_the_base_even_where_a_section_is_replaced",
        "envs/test_make.py::test_two_environments_of_one_config_share_nothing",
        "envs/test_tasks.py::test_a_tasks_settings_are_its_own",
        "evaluation/test_suites.py::test_the_saved_settings_are_not_touched",
        "evaluation/test_session.py::test_two_evaluations_with_other_settings_are_two_environments",
        "evaluation/test_suites.py::test_simulations_that_become_equal_over_this_environment_are_refused",
    ],
    26: [
        "config/test_resolve.py::test_an_unknown_key_is_refused_with_the_nearest_known_one",
        "config/test_env.py::test_an_unknown_key_inside_a_task_is_refused_with_its_path",
        "envs/test_make.py::test_an_unknown_setting_names_environment_and_setting",
    ],
    27: [
        "evaluation/test_suites.py::test_categories_are_what_is_written_and_not_what_a_name_contains",
        "loggers/test_samples.py::test_a_task_is_known_by_its_place_in_the_name_and_not_by_what_the_name_contains",
    ],
    28: ["evaluation/test_named_features.py::test_a_loaded_policy_can_be_handed_to_another_environment"],
    29: [
        "policies/test_features.py::test_permuted_ids_give_identical_actions",
        "policies/test_features.py::test_the_normalisation_is_the_one_of_the_name_not_of_the_id",
        "policies/test_features.py::test_a_scale_stands_at_its_features_id_not_at_its_place_in_the_list",
    ],
    30: [
        "policies/components/test_tokens.py::test_a_grid_of_tokens_is_what_filling_it_cell_by_cell_gives",
        "policies/components/test_tokens.py::test_an_empty_token_is_nothing_wherever_it_stands",
    ],
    31: [
        "policies/test_features.py::test_bytes_stay_bytes_and_nothing_wraps_around",
        "policies/components/test_tokens.py::test_a_grid_of_tokens_is_what_filling_it_cell_by_cell_gives",
    ],
    32: [
        "training/test_state.py::test_every_rank_draws_tasks_of_its_own",
        "training/test_curriculum.py::test_environments_share_one_generator_so_that_they_do_not_all_play_the_same",
        "training/test_curriculum.py::test_a_curriculum_resumes_bit_for_bit_and_a_part_that_is_left_out_is_seen",
    ],
    33: [
        "runs/metrics/test_writer.py::test_missing_zero_nan_and_infinity_are_four_things",
        "loggers/test_samples.py::test_without_an_episode_its_metrics_are_absent_not_zero",
        "training/test_curriculum.py::test_metrics_tell_returns_shares_and_how_many_were_completed",
    ],
    34: ["runner/test_cost_of_watching.py::test_watching_a_run_takes_a_small_share_of_it_and_waits_for_no_disk"],
    35: ["loggers/test_status.py::test_a_resumed_run_does_not_count_the_steps_of_earlier_sessions"],
    36: [
        "processes/test_resume.py::test_a_polite_signal_saves_and_the_run_goes_on_bit_for_bit",
        "runner/test_loop.py::test_a_stop_ends_after_the_update_and_saves_it",
    ],
    37: [
        "checkpoints/test_weights.py::test_a_policy_acts_the_same_after_its_round_trip",
        "policies/test_agent.py::test_the_names_and_values_that_are_saved_do_not_know_of_it",
    ],
    38: [
        "algorithms/test_optimizers.py::test_muon_gets_hidden_matrices_and_nothing_else",
        "config/test_optimizer.py::test_weight_decay_is_a_number_with_a_fraction_even_when_written_without",
    ],
    39: [
        "test_docs.py",
        "runner/test_train.py::test_a_run_leaves_status_journal_checkpoints_and_metrics",
    ],
    40: [
        "algorithms/buffers/test_replay_buffer.py::test_a_truncated_step_is_followed_by_its_own_last_observation",
    ],
    41: ["algorithms/buffers/test_replay_buffer.py::test_windows_are_those_of_their_definition"],
    42: [
        "algorithms/buffers/test_replay_buffer.py::test_every_step_that_is_complete_is_drawn_and_no_other",
        "algorithms/buffers/test_replay_buffer.py::test_windows_are_those_of_their_definition",
    ],
    43: [
        "algorithms/sac/test_loss.py::test_the_target_entropy_follows_from_the_action_space",
        "algorithms/sac/test_torch_sac.py::test_the_temperatures_gradient_is_by_its_logarithm",
        "algorithms/sac/test_torch_sac.py::test_ten_updates_are_those_of_another_implementation",
    ],
    44: [
        (
            "policies/test_role_distributions.py::"
            "test_the_log_probability_of_a_sample_is_the_density_of_the_action_in_the_environments_units"
        ),
        "policies/test_role_distributions.py::test_the_log_probability_is_exact_where_tanh_rounds_to_one",
        "algorithms/sac/test_torch_sac.py::test_ten_updates_are_those_of_another_implementation",
    ],
    45: [
        "algorithms/test_off_policy.py::test_the_environment_gets_scaled_actions_and_the_buffer_those_of_the_network",
    ],
    46: [
        "algorithms/td3/test_loss.py::test_noise_is_scaled_cut_and_kept_inside_the_bounds",
        "algorithms/td3/test_torch_td3.py::test_ten_updates_are_those_of_another_implementation",
    ],
    47: [
        "algorithms/td3/test_torch_td3.py::test_ten_updates_are_those_of_another_implementation",
        "algorithms/td3/test_torch_td3.py::test_actor_and_targets_wait_for_their_interval",
    ],
    48: [
        "algorithms/test_off_policy.py::test_updates_follow_steps_over_all_environments",
        "algorithms/test_off_policy.py::test_steps_of_all_ranks_count",
        "algorithms/test_off_policy.py::test_no_multiple_of_an_interval_is_missed_by_jumps",
    ],
    49: [
        "algorithms/sac/test_torch_sac.py::test_the_actors_update_leaves_critics_and_their_optimizer_as_they_are",
        "algorithms/td3/test_torch_td3.py::test_the_actors_update_leaves_the_critics_as_they_are",
    ],
    50: [
        "algorithms/dqn/test_loss.py::test_double_q_learning_chooses_with_the_network_and_values_with_the_target",
        "algorithms/dqn/test_torch_dqn.py::test_ten_updates_equal_plain_torch_written_out",
    ],
    51: [
        "algorithms/dqn/test_torch_dqn.py::test_statistics_come_from_fresh_steps_alone_and_apply_when_sampled",
    ],
    52: [
        "algorithms/test_off_policy.py::test_random_actions_of_a_box_fill_it_and_stay_inside",
        "algorithms/test_off_policy.py::test_random_choices_are_counted_from_zero",
    ],
    53: [
        "algorithms/buffers/test_sum_tree.py",
        "algorithms/dqn/test_torch_dqn.py::test_ten_updates_equal_plain_torch_written_out",
    ],
    54: ["algorithms/test_off_policy.py::test_returns_and_stored_rewards_are_the_environments_own"],
    55: [
        "algorithms/dqn/test_torch_dqn.py::test_a_restored_state_goes_on_bit_for_bit",
        "algorithms/sac/test_torch_sac.py::test_a_restored_state_goes_on_bit_for_bit",
        "algorithms/td3/test_torch_td3.py::test_a_restored_state_goes_on_bit_for_bit",
    ],
    56: [
        "algorithms/pqn/test_torch_pqn.py::test_layers_are_normalised_before_their_activation",
        "algorithms/pqn/test_torch_pqn.py::test_an_iteration_equals_plain_torch_written_out",
        "algorithms/pqn/test_returns.py::test_a_truncated_episode_bootstraps_and_takes_nothing_from_the_next_one",
    ],
    57: [
        "algorithms/sac/test_loss.py::test_for_discrete_actions_the_expectation_is_taken_over_all_of_them",
        "algorithms/sac/test_torch_sac.py::test_ten_updates_are_those_of_another_implementation",
    ],
}


@cache
def names_in(path: Path) -> frozenset[str]:
    nodes = ast.walk(ast.parse(path.read_text())) if path.exists() else ()
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def test_every_trap_has_a_test():
    assert TRAPS.keys() == CAUGHT_BY.keys()
    assert {*range(1, 40)} <= TRAPS.keys()


@pytest.mark.parametrize("number", CAUGHT_BY, ids=lambda number: f"{number}: {TRAPS[number]}")
def test_what_catches_a_trap_exists(number):
    assert CAUGHT_BY[number]
    for node in CAUGHT_BY[number]:
        file, _, name = node.partition("::")
        found = names_in(TESTS / file)
        assert found, f"{file} has no tests"
        assert not name or name in found, f"{file} has no {name}"
